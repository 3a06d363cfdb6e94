/** Kinds of settings that contain pairs: `name:value,name2:value2`. As in Go, nothing is trimmed. */
import { z } from 'zod';
import type { SettingKind } from '../../process/settings/settings-kinds.ts';

export type Pairs = readonly (readonly [name: string, value: string])[];

const oneColonEach = 'name:value,name2:value2, with one colon in each';

/** Headers sent with gRPC calls. If a name occurs twice, the last value counts. */
export function headerPairs(): SettingKind<Pairs> {
  return colonPairs({
    rejection: 'name:value,name2:value2',
    problemOf: (name, value) => {
      if (!/^[0-9a-z_.-]+$/i.test(name)) {
        return 'has a name with other characters than letters, digits and _.-';
      }
      const isAscii = /^[\x20-\x7e]*$/.test(value);
      return isAscii ? undefined : 'has a value with characters other than ASCII';
    },
    pairOf: (name, value) => [name.toLowerCase(), value],
  });
}

/**
 * Tags of statistics. As in envoyproxy/ratelimit, pairs without key or value are left out. If a key occurs twice, the last value counts.
 */
export function tagPairs(): SettingKind<Pairs> {
  return colonPairs({
    rejection: oneColonEach,
    problemOf: (name) =>
      /^[0-9a-z_./-]*$/i.test(name)
        ? undefined
        : 'has a name with other characters than letters, digits and _./-',
    pairOf: (name, value) => (name === '' || value === '' ? undefined : [name, value]),
  });
}

interface ColonPairs {
  /** The beginning of error messages. */
  rejection: string;
  problemOf(name: string, value: string): string | undefined;
  /** Returns undefined to omit the pair. */
  pairOf(name: string, value: string): Pairs[number] | undefined;
}

function colonPairs({ rejection, problemOf, pairOf }: ColonPairs): SettingKind<Pairs> {
  return {
    expected: oneColonEach,
    brief: '`name:value,name2:value2`',
    schema: z.string().transform((text, context) => {
      const pairs = new Map<string, string>();
      for (const [index, part] of (text === '' ? [] : text.split(',')).entries()) {
        const [name = '', value, ...rest] = part.split(':');
        const isPair = value !== undefined && rest.length === 0;
        const problem = isPair ? problemOf(name, value) : 'has not exactly one colon';
        if (problem !== undefined) {
          context.addIssue({ code: 'custom', message: `${rejection}; part ${index + 1} ${problem}` });
          return z.NEVER;
        }
        const pair = pairOf(name, value as string);
        if (pair !== undefined) pairs.set(...pair);
      }
      return [...pairs];
    }),
    format: (pairs) => pairs.map(([name, value]) => `${name}:${value}`).join(','),
  };
}

/** Free names and values, separated by the first `=`. As in envoyproxy/ratelimit, parts without `=` are ignored. */
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
