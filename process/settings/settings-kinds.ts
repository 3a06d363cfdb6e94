/** The kinds of values that environment variables hold. Each says what it accepts, in words for errors and docs. */
import { z } from 'zod';
import { addressText, type ListenAddress } from '../net/process-bind.ts';
import { formatGoDuration, parseGoBool, parseGoDuration, parseGoFloat, parseGoInteger } from './go-values.ts';

export interface SettingKind<T> {
  /** Continues "expected ...". */
  readonly expected: string;
  /** The same for a column of a table. */
  readonly brief: string;
  /** From the variable's text. The message of a custom issue takes the place of `expected`. */
  readonly schema: z.ZodType<T, string>;
  /** How a default is written in the documentation. */
  format(value: T): string;
}

interface Bounds {
  min: number;
  max: number;
}

/** Any text, the empty one included. */
export function text(): SettingKind<string> {
  return { expected: 'text', brief: 'text', schema: z.string(), format: (value) => value };
}

export function bool(): SettingKind<boolean> {
  return {
    expected: 'true or false (also 1, t, T, TRUE, True, 0, f, F, FALSE, False)',
    brief: 'boolean',
    schema: parsedBy(parseGoBool),
    format: String,
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

/** Milliseconds. `min` and `max` too. */
export function duration(bounds: Bounds): SettingKind<number> {
  const range = `${formatGoDuration(bounds.min)} to ${formatGoDuration(bounds.max)}`;
  return {
    expected: `a duration such as 10s, 150us or 1h30m, from ${range}`,
    brief: `duration, ${range}`,
    schema: parsedBy(parseGoDuration).pipe(z.number().min(bounds.min).max(bounds.max)),
    format: formatGoDuration,
  };
}

export interface ChoiceOptions<T extends string> {
  /** As the program handles them. They are accepted in any letter case. */
  values: readonly T[];
  /** Other spellings, `''` for the empty text, with what they mean. */
  synonyms?: Readonly<Record<string, T>>;
  /** Values that the Go service has and this program does not. */
  unavailable?: readonly string[];
}

/** One of a few words. */
export function choice<T extends string>(options: ChoiceOptions<T>): SettingKind<T> {
  const meanings = new Map<string, T>(Object.entries(options.synonyms ?? {}));
  for (const value of options.values) meanings.set(value.toLowerCase(), value);
  const unavailable = new Set(options.unavailable?.map((value) => value.toLowerCase()));
  const expected = `${wordList(options.values)}, in any letter case`;
  return {
    expected,
    brief: wordList(options.values),
    schema: z.string().transform((value, context) => {
      const meaning = meanings.get(value.toLowerCase());
      if (meaning !== undefined) return meaning;
      const remark = unavailable.has(value.toLowerCase()) ? '; this version does not have that one' : '';
      context.addIssue({ code: 'custom', message: expected + remark });
      return z.NEVER;
    }),
    format: (value) => value,
  };
}

/** A name that HTTP allows for a header field. RFC 9110, section 5.1. */
export function headerName(): SettingKind<string> {
  return {
    expected: "an HTTP header name: letters, digits and !#$%&'*+-.^_`|~ only, at least one",
    brief: 'header name',
    schema: z.string().regex(/^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/),
    format: (value) => value,
  };
}

/** An address to bind to. Empty stands for all IPv4 interfaces; brackets around an IPv6 address are dropped. */
export function bindHost(): SettingKind<string> {
  return {
    expected: 'a host name or IP address without port',
    brief: 'host or IP address',
    schema: z
      .string()
      .regex(/^(\[[0-9A-Fa-f:.]+\]|[^\s/[\]]*)$/)
      .transform((value) => (value === '' ? '0.0.0.0' : value.replace(/^\[(.*)\]$/, '$1'))),
    format: (value) => value,
  };
}

/** Host and port to bind to, as Go writes them: `:9090` for all addresses, `127.0.0.1:9090`, `[::1]:9090`. */
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
