/** The kinds of values in environment variables. Each has a text about accepted values for errors and docs. */
import { z } from 'zod';
import { addressText, type ListenAddress } from '../net/bind.ts';
import { formatGoDuration, parseGoBool, parseGoDuration, parseGoFloat, parseGoInteger } from './go-values.ts';

export interface SettingKind<T> {
  /** Continues "expected ...". */
  readonly expected: string;
  /** The same for a column of a table. */
  readonly brief: string;
  /** Parses the variable's text. The message of a custom issue replaces `expected`. */
  readonly schema: z.ZodType<T, string>;
  /** Returns a default as written in the documentation. */
  format(value: T): string;
}

/** A kind whose settings may omit the default. */
export interface DefaultedKind<T> extends SettingKind<T> {
  readonly defaultValue: T;
}

interface Bounds {
  min: number;
  max: number;
}

/** Any text, including the empty one. */
export function text(): DefaultedKind<string> {
  return { expected: 'text', brief: 'text', defaultValue: '', schema: z.string(), format: (value) => value };
}

/** A text of a certain form. */
export function textOf(
  expected: string,
  brief: string,
  schema: z.ZodType<string, string>,
): SettingKind<string> {
  return { expected, brief, schema, format: (value) => value };
}

export function bool(): DefaultedKind<boolean> {
  return {
    expected: 'true or false (also 1, t, T, TRUE, True, 0, f, F, FALSE, False)',
    brief: 'boolean',
    defaultValue: false,
    schema: parsedBy(parseGoBool),
    format: String,
  };
}

/** The same as `bool`, for a switch that the documentation calls `on` and `off`. */
export function onOff(): DefaultedKind<boolean> {
  // YAML reads the words as true and false.
  const words = choice({ values: ['on', 'off'], synonyms: { true: 'on', false: 'off' } });
  return {
    ...words,
    defaultValue: false,
    schema: words.schema.transform((word) => word === 'on'),
    format: (isOn) => (isOn ? 'on' : 'off'),
  };
}

export function integer(bounds: Bounds): SettingKind<number> {
  return {
    expected: `a whole number from ${bounds.min} to ${bounds.max}`,
    brief: `whole number, ${bounds.min} to ${bounds.max}`,
    schema: parsedBy(parseGoInteger).pipe(z.number().min(bounds.min).max(bounds.max)),
    format: String,
  };
}

export function float(bounds: Bounds): SettingKind<number> {
  return {
    expected: `a number from ${bounds.min} to ${bounds.max}`,
    brief: `number, ${bounds.min} to ${bounds.max}`,
    schema: parsedBy(parseGoFloat).pipe(z.number().min(bounds.min).max(bounds.max)),
    format: String,
  };
}

/** A TCP port to listen on or to dial. */
export function port(bounds: { min: 0 | 1 }): SettingKind<number> {
  const kind = integer({ min: bounds.min, max: 65_535 });
  const schema = z.string().superRefine((value, context) => {
    if (/^[a-z]+:\/\//.test(value)) {
      context.addIssue({
        code: 'custom',
        message: `${kind.expected}; this looks like the link that Kubernetes sets for a Service of that name: set enableServiceLinks: false on the pod, or set the variable yourself`,
      });
    }
  });
  return { ...kind, schema: schema.pipe(kind.schema) };
}

/** Permissions of a file, in octal: `660`, `0660` or `0o660`. */
export function unixMode(): SettingKind<number> {
  return {
    expected: 'permissions in octal, 0 to 0777',
    brief: 'octal, 0 to 0777',
    schema: z
      .string()
      .regex(/^(?:0o?)?[0-7]{1,3}$/)
      .transform((value) => Number.parseInt(value.replace(/^0o/, ''), 8)),
    format: (value) => value.toString(8).padStart(4, '0'),
  };
}

/** Milliseconds; so are `min` and `max`. */
export function duration(bounds: Bounds): SettingKind<number> {
  const range = `${formatGoDuration(bounds.min)} to ${formatGoDuration(bounds.max)}`;
  return {
    expected: `a duration such as 10s, 150us or 1h30m, from ${range}`,
    brief: `duration, ${range}`,
    schema: parsedBy(parseGoDuration).pipe(z.number().min(bounds.min).max(bounds.max)),
    format: formatGoDuration,
  };
}

/** One of a few words, in any letter case. `synonyms`: other spellings and their meaning, with `''` for the empty text. */
export function choice<T extends string>(options: {
  values: readonly T[];
  synonyms?: Readonly<Record<string, T>>;
}): SettingKind<T> {
  const meanings = new Map<string, T>(Object.entries(options.synonyms ?? {}));
  for (const value of options.values) meanings.set(value.toLowerCase(), value);
  const expected = `${wordList(options.values)}, in any letter case`;
  return {
    expected,
    brief: wordList(options.values.map((word) => `\`${word}\``)),
    schema: z.string().transform((value, context) => {
      const meaning = meanings.get(value.toLowerCase());
      if (meaning !== undefined) return meaning;
      context.addIssue({ code: 'custom', message: expected });
      return z.NEVER;
    }),
    format: (value) => value,
  };
}

/** A name that HTTP allows for a header field. RFC 9110, section 5.1. */
export function headerName(): SettingKind<string> {
  return textOf(`${headerNameForm}, at least one`, 'header name', z.string().regex(headerNamePattern));
}

/** The same as `headerName`, or empty for none. */
export function headerNameOrNone(): SettingKind<string> {
  const schema = z.union([z.literal(''), z.string().regex(headerNamePattern)]);
  return textOf(`${headerNameForm}, or nothing`, 'header name or empty', schema);
}

const headerNamePattern = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/;
const headerNameForm = "an HTTP header name: letters, digits and !#$%&'*+-.^_`|~ only";

/** An address to bind to. Empty means all IPv4 interfaces; brackets around an IPv6 address are dropped. */
export function bindHost(): SettingKind<string> {
  return textOf(
    'a host name or IP address without port',
    'host or IP address',
    z
      .string()
      .regex(/^(\[[0-9A-Fa-f:.]+\]|[^\s/[\]]*)$/)
      .transform((value) => (value === '' ? '0.0.0.0' : value.replace(/^\[(.*)\]$/, '$1'))),
  );
}

/** Host and port to bind to, in Go's form: `:9090` for all addresses, `127.0.0.1:9090`, `[::1]:9090`. */
export function listenAddress(): SettingKind<ListenAddress> {
  return {
    expected: 'host:port or :port, an IPv6 address in brackets, with a port from 0 to 65535',
    brief: '`host:port` or `:port`',
    schema: parsedBy((value) => {
      const match = /^(?:\[([0-9A-Fa-f:.]+)\]|([^\s/[\]:]*)):(\d{1,5})$/.exec(value);
      const port = Number(match?.[3]);
      if (match === null || port > 65_535) return undefined;
      return { host: match[1] ?? match[2] ?? '', port };
    }),
    format: addressText,
  };
}

function parsedBy<T>(parse: (value: string) => T | undefined): z.ZodType<T, string> {
  return z.string().transform((value, context) => {
    const parsed = parse(value);
    if (parsed !== undefined) return parsed;
    context.addIssue({ code: 'invalid_format', format: 'setting' });
    return z.NEVER;
  });
}

function wordList(words: readonly string[]): string {
  return words.length === 1 ? `${words[0]}` : `${words.slice(0, -1).join(', ')} or ${words.at(-1)}`;
}

// The syntax of names in Kubernetes.
const label = '[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?';
const subdomain = `${label}(\\.${label})*`;

/** RFC 1123 label: the names of namespaces and fleets. Empty if the program determines the name itself. */
export function dnsLabel({ mayBeEmpty = false }: { mayBeEmpty?: boolean } = {}): SettingKind<string> {
  return textOf(
    `up to 63 of a-z, 0-9 and -, without - at either end${orEmpty(mayBeEmpty)}`,
    `DNS label${orEmpty(mayBeEmpty)}`,
    z.string().regex(new RegExp(`^(${label})${mayBeEmpty ? '?' : ''}$`)),
  );
}

/** A DNS name, which becomes lower case. */
export function hostName(): SettingKind<string> {
  const expected = 'a DNS name without port, such as limiter.example';
  return {
    expected,
    brief: 'DNS name',
    schema: z
      .string()
      .toLowerCase()
      .max(253, expected)
      .regex(new RegExp(`^${subdomain}$`), expected),
    format: (value) => value,
  };
}

/** The names of objects. */
export function objectName(options: { maxLength: number; mayBeEmpty: boolean }): SettingKind<string> {
  const { maxLength, mayBeEmpty } = options;
  return textOf(
    `up to ${maxLength} of a-z, 0-9, - and ., with a letter or digit at both ends of each part${orEmpty(mayBeEmpty)}`,
    `object name${orEmpty(mayBeEmpty)}`,
    z
      .string()
      .max(maxLength)
      .regex(new RegExp(`^(${subdomain})${mayBeEmpty ? '?' : ''}$`)),
  );
}

function orEmpty(mayBeEmpty: boolean): string {
  return mayBeEmpty ? ', or empty' : '';
}

/**
 * Items separated by commas. Blanks around an item are ignored, an empty one is an error, and a repeated one counts once. An empty text
 * is the empty list.
 */
export function list<T>(item: SettingKind<T>, bounds: { max: number }): SettingKind<readonly T[]> {
  const expected = `up to ${bounds.max} items between commas, each ${item.expected}`;
  return {
    expected,
    brief: `items between commas: ${item.brief}`,
    schema: z.string().transform((value, context) => {
      const texts = value.trim() === '' ? [] : value.split(',').map((item) => item.trim());
      const reject = (remark: string): never => {
        context.addIssue({ code: 'custom', message: `${expected}; ${remark}` });
        return z.NEVER;
      };
      if (texts.length > bounds.max) return reject(`these are ${texts.length}`);
      const results = texts.map((text) => item.schema.safeParse(text));
      const bad = results.findIndex((result, i) => !result.success || texts[i] === '');
      if (bad !== -1) return reject(`item ${bad + 1} is not`);
      return [...new Set(results.map(({ data }) => data as T))];
    }),
    format: (values) => values.map((value) => item.format(value)).join(','),
  };
}

/** `name=value` items, where the name may contain another `=`. A repeated name has several values. */
export function pairs({
  name,
  value,
  max,
}: {
  name: SettingKind<string>;
  value: SettingKind<string>;
  max: number;
}): SettingKind<ReadonlyMap<string, readonly string[]>> {
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
