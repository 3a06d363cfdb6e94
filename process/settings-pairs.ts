/** Kinds of settings that hold pairs: `name:value,name2:value2`. As Go reads them, nothing is trimmed. */
import { z } from 'zod';
import type { SettingKind } from './settings-kinds.ts';

export type Pairs = readonly (readonly [name: string, value: string])[];

/** Headers that go with calls of gRPC. A name that comes twice has the last value. */
export function headerPairs(): SettingKind<Pairs> {
  return {
    expected: 'name:value,name2:value2, with one colon in each',
    brief: '`name:value,name2:value2`',
    schema: z.string().transform((text, context) => {
      const pairs = new Map<string, string>();
      for (const [index, part] of (text === '' ? [] : text.split(',')).entries()) {
        const [name = '', value, ...rest] = part.split(':');
        const problem =
          value === undefined || rest.length > 0
            ? 'has not exactly one colon'
            : !/^[0-9a-z_.-]+$/i.test(name)
              ? 'has a name with other characters than letters, digits and _.-'
              : !/^[\x20-\x7e]*$/.test(value)
                ? 'has a value with other characters than those of ASCII'
                : undefined;
        if (problem !== undefined) {
          const message = `name:value,name2:value2; part ${index + 1} ${problem}`;
          context.addIssue({ code: 'custom', message });
          return z.NEVER;
        }
        pairs.set(name.toLowerCase(), value as string);
      }
      return [...pairs];
    }),
    format: (pairs) => pairs.map(([name, value]) => `${name}:${value}`).join(','),
  };
}

/** Tags of statistics. Pairs without key or value are left out, as envoyproxy/ratelimit does; of two with one key the last one stays. */
export function tagPairs(): SettingKind<Pairs> {
  const expected = 'name:value,name2:value2, with one colon in each';
  return {
    expected,
    brief: '`name:value,name2:value2`',
    schema: z.string().transform((text, context) => {
      const pairs = new Map<string, string>();
      for (const [index, part] of (text === '' ? [] : text.split(',')).entries()) {
        const [name = '', value, ...rest] = part.split(':');
        const problem =
          value === undefined || rest.length > 0
            ? 'has not exactly one colon'
            : !/^[0-9a-z_./-]*$/i.test(name)
              ? 'has a name with other characters than letters, digits and _./-'
              : undefined;
        if (problem !== undefined) {
          context.addIssue({ code: 'custom', message: `${expected}; part ${index + 1} ${problem}` });
          return z.NEVER;
        }
        if (name !== '' && value !== '') pairs.set(name, value as string);
      }
      return [...pairs];
    }),
    format: (pairs) => pairs.map(([name, value]) => `${name}:${value}`).join(','),
  };
}

/** Free names and values, parted at the first `=`; parts without one are left out, as envoyproxy/ratelimit does. */
export function metadataPairs(): SettingKind<Pairs> {
  return {
    expected: 'name=value,name2=value2',
    brief: '`name=value,name2=value2`',
    schema: z.string().transform((text) =>
      text.split(',').flatMap((part) => {
        const equals = part.indexOf('=');
        return equals === -1 ? [] : [[part.slice(0, equals), part.slice(equals + 1)] as const];
      }),
    ),
    format: (pairs) => pairs.map(([name, value]) => `${name}=${value}`).join(','),
  };
}
