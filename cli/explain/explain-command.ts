import type { ExplainOptions } from '../../limiter/operate/explain.ts';
import { leaseForm, leaseFromText } from '../../rules/lease.ts';
import type { Entry } from '../../rules/model.ts';
import type { LoadedSource } from '../../rules/reader/read-rule-texts.ts';
import { rootFlag, rootsOf } from '../shared/contained-files.ts';
import {
  commandOf,
  counterKeysOf,
  maxTextBytesOf,
  type ParsedFlags,
  paintFor,
  readTime,
  UsageError,
} from '../shared/flags.ts';
import { io } from '../shared/io.ts';
import { dataText, type OutputFormat, outputFlag, outputFormat } from '../shared/output.ts';
import {
  printClashes,
  printInputErrors,
  readInputOrUrl,
  servedByFlags,
  sourcesServedBy,
} from '../shared/read-input.ts';
import { ExplainReport, explainJson } from './explain-report.ts';
import { explainRequest, type ToldDescriptor } from './explain-request.ts';
import { askLimiter, isLimiter } from './limiter-rules.ts';

/**
 * Reads one descriptor: `key=value,key2=value2`. A pair ends its key at the first `=`. A value, or a key, may stand in
 * double quotes, with \" and \\ in it, and then hold commas and anything else: `path="/a,b",user=x`.
 */
export function parseQuotedDescriptor(text: string): Entry[] {
  const reader = new DescriptorReader(text);
  return reader.entries();
}

/** Reads `key=value`, nothing in it being special but the first `=`. */
export function parseEntry(text: string): Entry {
  const end = text.indexOf('=');
  if (end < 1) throw new UsageError(`invalid value "${text}" for --entry: it is not of the form key=value`);
  return { key: text.slice(0, end), value: text.slice(end + 1) };
}

class DescriptorReader {
  readonly #text: string;
  #at = 0;

  constructor(text: string) {
    this.#text = text;
  }

  entries(): Entry[] {
    const entries: Entry[] = [];
    do {
      const from = this.#at;
      const key = this.#word('=');
      if (key === '' || this.#text[this.#at] !== '=') {
        const end = this.#text.indexOf(',', from);
        this.#fail(`"${this.#text.slice(from, end === -1 ? undefined : end)}" is not of the form key=value`);
      }
      this.#at++;
      entries.push({ key, value: this.#word(',') });
      if (this.#at < this.#text.length && this.#text[this.#at] !== ',') {
        this.#fail(`after a closing quote a comma must follow, not "${this.#text[this.#at]}"`);
      }
    } while (this.#at++ < this.#text.length);
    return entries;
  }

  /** Up to the mark or the end, or what stands in quotes. */
  #word(mark: string): string {
    if (this.#text[this.#at] === '"') return this.#quoted();
    const end = this.#text.indexOf(mark, this.#at);
    const stop = end === -1 ? this.#text.length : end;
    const word = this.#text.slice(this.#at, stop);
    this.#at = stop;
    return mark === '=' && word.includes(',') ? '' : word;
  }

  #quoted(): string {
    const match = /"((?:[^"\\]|\\["\\])*)"/y;
    match.lastIndex = this.#at;
    const found = match.exec(this.#text);
    if (found === null) this.#fail('a quote is not closed, or \\ stands before something else than " and \\');
    this.#at = match.lastIndex;
    return found[1]!.replace(/\\(.)/g, '$1');
  }

  #fail(problem: string): never {
    throw new UsageError(`invalid value "${this.#text}" for --descriptors: ${problem}`);
  }
}

/** The flags that say what is asked, and how the limiter is set. */
export const requestHelp = `  --domain <domain>           domain of the request
  --descriptors <k=v,k2=v2>   one descriptor; repeat the flag for several; a value in double quotes may hold commas:
                              'path="/a,b",user=x', with \\" and \\\\ inside
  --entry <key=value>         one entry, as it is; all of these flags together are one more descriptor
  --at <time>                 the moment to name the counter for: RFC 3339 or seconds since 1970 (default now)
  --cache-key-prefix <text>   the limiter's CACHE_KEY_PREFIX
  --calendar-month            the limiter has USE_CALENDAR_MONTH_RATE_LIMIT=true
  --counter-keys <form>       the limiter's COUNTER_KEYS, compatible or unambiguous (default: the variable of this name, else
                              compatible)
  --leases <share>            the limiter has LEASES=on and this LEASE_SHARE: tells of all rules what is leased, not only of those
                              with a lease of their own
  --max-text-bytes <number>   the limiter's REQUEST_MAX_TEXT_BYTES (default: the variable of this name, else 16384)
  --undotted-metrics          the limiter has SANITIZE_DESCRIPTOR_METRIC_DOTS=true
`;

export const requestFlags = {
  domain: { type: 'string' },
  descriptors: { type: 'string', multiple: true },
  entry: { type: 'string', multiple: true },
  class: { type: 'string' },
  fleet: { type: 'string' },
  at: { type: 'string' },
  'cache-key-prefix': { type: 'string' },
  'calendar-month': { type: 'boolean' },
  'counter-keys': { type: 'string' },
  leases: { type: 'string' },
  'max-text-bytes': { type: 'string' },
  'undotted-metrics': { type: 'boolean' },
  ...outputFlag,
} as const;

/** What the flags ask. @throws UsageError */
export function requestOf(flags: ParsedFlags): ExplainOptions {
  const [domain, at] = [flags.text('domain'), flags.text('at')];
  const descriptors = givenDescriptors(flags);
  if (domain === undefined || descriptors.length === 0) {
    throw new UsageError(
      'explain needs --domain and at least one --descriptors key=value or --entry key=value',
    );
  }
  return {
    domain,
    descriptors,
    nowSeconds: at === undefined ? Math.floor(Date.now() / 1000) : Math.floor(readTime('--at', at) / 1000),
    cacheKeyPrefix: flags.text('cache-key-prefix') ?? '',
    useCalendarMonthRateLimit: flags.on('calendar-month'),
    usualLease: share(flags.text('leases') ?? '0'),
    names: {
      sanitizeDescriptorMetricDots: flags.on('undotted-metrics'),
      counterKeys: counterKeysOf(flags),
      maxTextBytes: maxTextBytesOf(flags),
    },
  };
}

/** What another knows better of each descriptor: in their order, undefined where it knows nothing. */
export type KnownBetter = readonly (Pick<ToldDescriptor, 'overrides'> & { counters: readonly string[] })[];

/** Prints what the sources of one load make of the request, or why no limiter would load them; returns the exit status. */
export function printExplanation(
  sources: readonly LoadedSource[],
  options: ExplainOptions,
  { format, mergeDomains, known = [] }: { format: OutputFormat; mergeDomains: boolean; known?: KnownBetter },
): number {
  const calendarMonths = options.useCalendarMonthRateLimit;
  const support = { admission: undefined, groups: undefined, calendarMonths };
  if (printClashes(sources, { mergeDomains, support })) return 2;
  const request = explainRequest(sources, options);
  request.descriptors = request.descriptors.map((told, index) => withKnown(told, known[index]));
  const report = new ExplainReport(sources, paintFor(io().stdout), options.usualLease);
  io().stdout.write(
    format === 'text'
      ? report.text(options.domain, request)
      : dataText(explainJson(options.domain, request, sources), format),
  );
  return request.descriptors.every(({ effect }) => effect !== 'none') ? 0 : 1;
}

function withKnown(told: ToldDescriptor, known: KnownBetter[number] | undefined): ToldDescriptor {
  if (known === undefined) return told;
  const { overrides, counters: keys } = known;
  const isSame = keys.length === told.counters.length;
  const counters = told.counters.map((one, index) => ({ ...one, key: isSame ? keys[index]! : one.key }));
  return { ...told, overrides, counters };
}

const help = `Usage: weir explain <rules> --domain <domain> --descriptors <key=value,...> [flags]

Tells which rule applies to a request and why, level by level; where it counts, and what else nearly matched. Nothing is
counted. <rules> is a file, a folder, - for standard input, or host:port of the debug listener of a running limiter, which also
tells what overrides lie over the rules, and names counters as it is set. "kubectl weir explain" reads the objects of a cluster.

${requestHelp}  --class <name>              whose manifests to read, where there are several classes (of control planes)
  --fleet <name>              whose manifests to read, where there are several fleets
  --merge-domain-configs      several files may name one domain, as with MERGE_DOMAIN_CONFIG=true
  --root <folder>             read no file from outside of this folder (default: the folder of a file that is named);
                              repeat the flag for several. Links that lead out of a folder of rules are never followed
  --token-file <path>         what to show a limiter that asks for a token (default: the file that WEIR_TOKEN_FILE names)
  --timeout <t>               how long to wait for a limiter's answers (default 5s)
  -o, --output <form>         how to print the result: table (default), json or yaml

  weir explain examples/rules --domain shop --descriptors path=/search/shoes,plan=gold
  weir explain localhost:6070 --domain shop --entry 'path=/a,b'

Exit status: 0 when a rule limits each descriptor, or lets it pass as unlimited or replaced; 1 when one has no limit;
2 for a wrong command line, or rules that cannot be read.
`;

export const explainCommand = commandOf(
  help,
  {
    ...requestFlags,
    'merge-domain-configs': { type: 'boolean' },
    ...rootFlag,
    'token-file': { type: 'string' },
    timeout: { type: 'string' },
  },
  async (flags) => {
    const format = outputFormat(flags);
    const [path, stray] = flags.positionals;
    if (path === undefined)
      throw new UsageError('explain needs rules: a file, a folder or host:port of a limiter');
    if (stray !== undefined) throw new UsageError(`explain takes one set of rules, "${stray}" is another`);
    const options = requestOf(flags);
    if (isLimiter(path)) {
      const { sources, known } = await askLimiter(path, flags, options);
      return printExplanation(sources, options, { format, mergeDomains: true, known });
    }
    const mergeDomains = flags.on('merge-domain-configs');
    const input = await readInputOrUrl(path, { mergeDomains, roots: rootsOf(flags) });
    if (printInputErrors(input)) return 2;
    const sources = sourcesServedBy(input.sources, servedByFlags(flags));
    return printExplanation(sources, options, { format, mergeDomains });
  },
);

function givenDescriptors(flags: ParsedFlags): Entry[][] {
  const descriptors = flags.list('descriptors').map(parseQuotedDescriptor);
  const entries = flags.list('entry').map(parseEntry);
  return entries.length === 0 ? descriptors : [...descriptors, entries];
}

function share(text: string): number {
  const lease = leaseFromText(text);
  if (lease === undefined) throw new UsageError(`--leases is ${leaseForm}, not "${text}"`);
  return lease;
}
