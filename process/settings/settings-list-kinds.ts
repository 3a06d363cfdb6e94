/** Kinds of values that hold several items between commas. Blanks around an item do not count; an empty item is refused. */
import { z } from 'zod';
import type { SettingKind } from './settings-kinds.ts';

/** An empty text is the empty list. An item that comes twice counts once. */
export function list<T>(item: SettingKind<T>, bounds: { max: number }): SettingKind<readonly T[]> {
  const expected = `up to ${bounds.max} items between commas, each ${item.expected}`;
  return {
    expected,
    brief: `items between commas: ${item.brief}`,
    schema: z.string().transform((value, context) => {
      const texts = items(value);
      const refuse = (remark: string): never => {
        context.addIssue({ code: 'custom', message: `${expected}; ${remark}` });
        return z.NEVER;
      };
      if (texts.length > bounds.max) return refuse(`these are ${texts.length}`);
      const results = texts.map((text) => item.schema.safeParse(text));
      const bad = results.findIndex((result, i) => !result.success || texts[i] === '');
      if (bad !== -1) return refuse(`item ${bad + 1} is not`);
      return [...new Set(results.map(({ data }) => data as T))];
    }),
    format: (values) => values.map((value) => item.format(value)).join(','),
  };
}

export interface PairsOptions {
  /** What stands before the `=`; it may hold another `=`. */
  name: SettingKind<string>;
  value: SettingKind<string>;
  max: number;
}

/** `name=value` items; a name that comes again has several values. */
export function pairs(options: PairsOptions): SettingKind<ReadonlyMap<string, readonly string[]>> {
  const { name, value, max } = options;
  const pair: SettingKind<readonly [string, string]> = {
    expected: `name=value, where the name is ${name.expected}, and the value is ${value.expected}`,
    brief: `\`${name.brief}=${value.brief}\``,
    schema: z
      .string()
      .regex(/=/)
      .transform((text) => {
        const mark = text.lastIndexOf('=');
        return [text.slice(0, mark).trim(), text.slice(mark + 1).trim()] as const;
      })
      .pipe(z.tuple([name.schema, value.schema])),
    format: (item) => item.join('='),
  };
  const whole = list(pair, { max });
  return {
    ...whole,
    schema: whole.schema.transform(grouped),
    format: (map) => [...map].flatMap(([key, values]) => values.map((one) => `${key}=${one}`)).join(','),
  };
}

function grouped(all: readonly (readonly [string, string])[]): ReadonlyMap<string, readonly string[]> {
  const groups = new Map<string, string[]>();
  for (const [name, value] of all) {
    const values = groups.get(name);
    if (values === undefined) groups.set(name, [value]);
    else if (!values.includes(value)) values.push(value);
  }
  return groups;
}

function items(value: string): string[] {
  return value.trim() === '' ? [] : value.split(',').map((item) => item.trim());
}
