/** The first files for a new limit: rules, the proxy's configuration, and commands that end in a 429. */

import { relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import {
  type JsonObject,
  type Limit,
  makeLimit,
  makeRule,
  type Rule,
  Unit,
  unitFromText,
} from '../../rules/model.ts';
import { type KeySource, neededRateLimits } from '../../rules/proxy/needed-rate-limits.ts';
import { unitWord, windowFromText, windowText } from '../../rules/window.ts';
import { ruleFileValue, ruleValue } from '../../rules/write-rules.ts';
import { envoyOutputs, istioLimiter } from '../envoy/envoy-texts.ts';
import { io } from '../shared/io.ts';
import { perUnit } from '../shared/text.ts';
import { yamlText } from '../shared/yaml-text.ts';

export interface StarterAnswers {
  /** The keys of the limit. Several keys together have one limit for each combination. */
  by: LimitedBy[];
  limit: { requests: number; unit: Unit; multiplier: number };
  domain: string;
  proxy: ProxyName;
}

interface LimitedBy {
  key: string;
  source: KeySource;
  /** A value for a first try. */
  sample: string;
}

export interface Starter {
  /** Contents by path in the folder. */
  files: Map<string, string>;
  /** The next steps, in order: the purpose, and the command. */
  steps: { what: string; command: string }[];
  /** Requests that the rules do not limit. */
  notes: string[];
}

interface Recipe {
  /** Files of the proxy's folder below examples/. */
  copied: readonly string[];
  /** Returns the command that starts the proxy with the files in this folder. */
  start(folder: string): string;
  /** The status of a rate-limited request. nginx turns a 429 into a 500. */
  refusedStatus?: number;
}

/** Proxies that query the limiter over HTTP. test/e2e runs each of these files with the real proxy. */
const recipes = {
  nginx: {
    copied: ['nginx.conf', 'weir.conf'],
    start: (folder) => `nginx -e stderr -c "$(realpath ${folder})/nginx.conf"`,
    refusedStatus: 403,
  },
  haproxy: { copied: ['haproxy.cfg', 'weir.lua'], start: (folder) => `haproxy -db -f ${folder}/haproxy.cfg` },
  caddy: {
    copied: ['Caddyfile'],
    start: (folder) => `caddy run --config ${folder}/Caddyfile --adapter caddyfile`,
  },
  traefik: {
    copied: ['traefik.yaml', 'dynamic.yaml'],
    start: (folder) => `python3 -m http.server 10001 & traefik --configFile=${folder}/traefik.yaml`,
  },
} as const satisfies Record<string, Recipe>;

export const proxyNames = [
  'envoy',
  'istio',
  ...(Object.keys(recipes) as (keyof typeof recipes)[]),
  'none',
] as const;
export type ProxyName = (typeof proxyNames)[number];

/** Reads `address`, `path` and `header:<name>`, separated by commas. Returns an error as a text. */
export function parseBy(text: string): LimitedBy[] | string {
  const parts = text.split(',').map((part) => part.trim());
  const by: LimitedBy[] = [];
  for (const part of parts) {
    const [, header] = /^header:([A-Za-z0-9_-]{1,60})$/.exec(part) ?? [];
    const one = header === undefined ? plainBy[part as keyof typeof plainBy] : headerBy(header);
    if (one === undefined || !(header !== undefined || Object.hasOwn(plainBy, part)))
      return `"${part}" is not one of address, path and header:<name>; several are separated by commas${loginHint(part)}`;
    if (by.some(({ key }) => key === one.key)) return `"${part}" is given twice`;
    by.push(one);
  }
  return by;
}

/** Returns a hint for keys of a login, which no proxy knows. */
function loginHint(part: string): string {
  return /^(?:log-?ins?|accounts?|users?|user-?names?|e-?mails?)$/i.test(part) ? `. ${loginWords}` : '';
}

const loginWords =
  'A login needs two limits, by account and by address, not a pair: examples/login-throttling has them';

const plainBy = {
  address: { key: 'remote_address', source: { type: 'remote_address' }, sample: '203.0.113.7' },
  path: { key: 'path', source: { type: 'header', name: ':path' }, sample: '/' },
} as const satisfies Record<string, LimitedBy>;

function headerBy(header: string): LimitedBy {
  const name = header.toLowerCase();
  const key = name.replace(/^x-/, '').replaceAll('-', '_');
  const isTaken = Object.values(plainBy).some((one) => one.key === key);
  return { key: isTaken ? `header_${key}` : key, source: { type: 'header', name }, sample: 'first' };
}

/** Reads `100/minute`, `100/min`, `5/10s`. Returns an error as a text. */
export function parseLimit(text: string): StarterAnswers['limit'] | string {
  const [, digits, window = ''] =
    /^(\d{1,10})\s*(?:\/|per\s|a\s|in\s)\s*([a-z0-9]+)$/i.exec(text.trim()) ?? [];
  const requests = Number(digits);
  const problem = `"${text}" is not a limit: `;
  const spelling = `${problem}it is a number of requests and second, minute, hour, day, week, month or year, or a duration, such as 100/minute or 5/10s`;
  if (!(requests > 0 && requests <= 0xffff_ffff)) return spelling;
  const unit = unitFromText(window);
  if (unit !== undefined) return { requests, unit, multiplier: 1 };
  const short = window.toLowerCase().replace(/(?<=^|\d)(?:(s)ec|(m)in|(h)r)s?$/, '$1$2$3');
  const length = windowFromText(/^\d/.test(short) ? short : `1${short}`);
  if (typeof length !== 'string') return { requests, ...length };
  return /^\d/.test(short) ? `${problem}${window} ${length}` : spelling;
}

/** Returns how to call the program from this folder. `started` is the file that runs, and `source` this module. */
export function programWord(folder: string, started = io().started, source = import.meta.url): string {
  const isClone = source.endsWith('.ts');
  // Never npx: outside a project with this program, it would run a foreign package of the same name.
  if (!isClone && !started.endsWith('/node_modules/.bin/weir')) return 'weir';
  const path = isClone ? fileURLToPath(new URL('../../bin/weir', source)) : started;
  const here = relative(folder, path);
  return here.startsWith('../..') ? path : here;
}

/** Reads a domain, which also names a file and a profile. Returns an error as a text. */
export function parseDomain(text: string): { domain: string } | string {
  if (/^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$/.test(text)) return { domain: text };
  return `"${text}" is not a name: at most 63 letters, digits, ".", "_" and "-", with a letter or digit first`;
}

/** `folder` is the folder's name in steps, `example` reads a file of the package, and `weir` is the command of the program. */
export function starterFiles(
  answers: StarterAnswers,
  folder: string,
  example: (path: string) => string,
  weir: string,
): Starter {
  const { by, domain, proxy } = answers;
  const rule = ruleOf(answers);
  const needed = neededRateLimits([rule], new Map(by.map(({ key, source }) => [key, source])));
  const files = new Map([
    [`config/${domain}.yaml`, rulesText(answers, rule)],
    [`config/${domain}.test.yaml`, testsText(answers, `${weir} test ${folder}/config`)],
  ]);
  const steps = [{ what: 'Start a limiter.', command: limiterCommand(folder, weir) }];
  const inTheEnd =
    'Send one request more than the limit. The last answer is 429, unless the window ends meanwhile.';
  if (proxy === 'none') {
    steps.push({ what: inTheEnd, command: repeated(answers, checkCommand(answers)) });
  } else if (proxy === 'istio') {
    files.set('istio.yaml', envoyOutputs.istio(needed, { domain, limiter: istioLimiter }));
    const rules = `${weir} convert ${folder}/config --to manifest --namespace weir-system | kubectl apply -f -`;
    steps[0] = { what: 'Give the rules to the control plane, where Weir is installed.', command: rules };
    steps.push({ what: 'Configure the gateways.', command: `kubectl apply -f ${folder}/istio.yaml` });
  } else {
    if (proxy === 'envoy') {
      const target = { host: '127.0.0.1', port: 8081 };
      files.set('envoy.yaml', envoyOutputs.bootstrap(needed, { domain, limiter: target }));
      steps.push({ what: 'Start Envoy on port 10000.', command: `envoy -c ${folder}/envoy.yaml` });
    } else {
      const recipe: Recipe = recipes[proxy];
      const items = needed.map(({ value }) => value);
      files.set('profiles.yaml', profileText(domain, items, recipe.refusedStatus));
      for (const name of recipe.copied)
        files.set(name, adapted(example(`examples/${proxy}/${name}`), answers, folder));
      steps.push({ what: `Start ${proxy} on port 10000.`, command: recipe.start(folder) });
    }
    steps.push({ what: inTheEnd, command: repeated(answers, curlCommand(by)) });
    if (proxy === 'envoy') steps.push({ what: allPassed, command: envoyCounts });
  }
  steps.unshift(
    { what: 'Check the files.', command: weirCheck(folder, files, weir) },
    { what: 'Run the tests of the rules.', command: `${weir} test ${folder}/config` },
  );
  if (offersSecondRule(by))
    for (const name of proxyFiles) if (files.has(name)) files.set(name, withSecondAction(files.get(name)!));
  const notes = notesOf(
    by,
    [`config/${domain}.yaml`, ...proxyFiles]
      .filter((name) => files.has(name))
      .map((name) => `${folder}/${name}`),
  );
  files.set('README.md', readme(answers, folder, steps, notes));
  return { files, steps, notes };
}

/** Returns the headers of these keys. Clients choose headers, or leave them out. */
function headersOf(by: readonly LimitedBy[]): string[] {
  return by.flatMap(({ source }) =>
    source.type === 'header' && !source.name.startsWith(':') ? [source.name] : [],
  );
}

/** Whether to offer a second rule, for requests without a header. A rule that begins with the address leaves no room for one. */
function offersSecondRule(by: readonly LimitedBy[]): boolean {
  return headersOf(by).length > 0 && by[0]!.key !== plainBy.address.key;
}

/** Configurations of the proxy. One of them says which descriptors it sends. */
const proxyFiles = ['envoy.yaml', 'istio.yaml', 'profiles.yaml'] as const;

/** Adds the action of the second rule as a comment, because until that rule exists, no rule matches its descriptor. */
function withSecondAction(text: string): string {
  const lines = text.split('\n');
  const first = lines.findIndex((line) => /^ *- actions:$/.test(line));
  const indent = lines[first]!.search(/\S/);
  const after = lines.findIndex((line, n) => n > first && line.trim() !== '' && line.search(/\S/) <= indent);
  const margin = ' '.repeat(indent);
  const second = ['# For the second rule:', '# - actions:', '#     - remote_address: {}'];
  lines.splice(after === -1 ? lines.length - 1 : after, 0, ...second.map((line) => margin + line));
  return lines.join('\n');
}

/** `files`: the files of the rules, and of the proxy if it is one of ours. */
function notesOf(by: readonly LimitedBy[], files: readonly string[]): string[] {
  const headers = headersOf(by);
  const second = offersSecondRule(by)
    ? ` A second rule, which limits each address, is in a comment. To use it, remove the # before its lines in ${files.join(' and ')}.`
    : '';
  const missing =
    headers.length === 0
      ? []
      : [
          `Requests without the header ${headers.join(' or ')} are not limited, because they have no such descriptor.${second}`,
        ];
  const pair =
    by.length === 1
      ? []
      : [
          `The entries are counted in combination, so a client that changes one of them has a new counter. ${loginWords}.`,
        ];
  return [...missing, ...pair];
}

const allPassed =
  'Were all answers 200? If only cluster.service.ratelimit.ok counts, the window ended meanwhile: send the requests again. If cluster.service.ratelimit.error counts, Envoy cannot reach the limiter and lets all requests pass. If no statistic counts, Envoy does not ask.';
const envoyCounts = 'curl -s localhost:9901/stats | grep ratelimit';

/** Nests the keys in the order of the question. The last one has the limit. */
function ruleOf({ by, limit }: StarterAnswers): Rule {
  const limits = limitsOf(limit);
  const rules = by
    .toReversed()
    .reduce<Rule[]>(
      (descriptors, { key }) => [makeRule({ key, descriptors }, descriptors.length === 0 ? limits : [])],
      [],
    );
  return rules[0] as Rule;
}

function rulesText({ by, limit, domain }: StarterAnswers, rule: Rule): string {
  const whose = by.map(({ key }) => key).join(' and ');
  const { requests, unit, multiplier } = limit;
  const window = multiplier === 1 ? perUnit(unitWord(unit)) : `in ${windowText(unit, multiplier)}`;
  const comment = `# ${requests} requests ${window} for each ${whose}. docs/rules.md describes the rule language.\n`;
  const isByPath = by.some(({ key }) => key === 'path');
  const query = isByPath ? '# A path includes its query: /a?b=c and /a have different counters.\n' : '';
  const text = comment + query + yamlText(ruleFileValue({ domain, descriptors: [rule] }));
  const headers = headersOf(by);
  if (!offersSecondRule(by)) return text;
  const second = yamlText({ limits: [ruleValue(makeRule({ key: 'remote_address' }, limitsOf(limit)))] });
  return [
    `${text}  # Requests without the header ${headers.join(' or ')} do not match this rule. The next one limits each address, if`,
    '  # remote_address is a second descriptor of the request:',
    ...second
      .trimEnd()
      .split('\n')
      .slice(1)
      .map((line) => `  # ${line.slice(2)}`),
    '',
  ].join('\n');
}

function limitsOf({
  requests: requestsPerUnit,
  unit,
  multiplier: unitMultiplier,
}: StarterAnswers['limit']): Limit[] {
  return [makeLimit({ unit: unitWord(unit), unitMultiplier, requestsPerUnit })];
}

/** Writes tests of the limit, which "weir test" runs. */
function testsText({ by, limit: { requests, unit, multiplier } }: StarterAnswers, command: string): string {
  const asked = by.map(({ key, sample }) => `${key}=${sample}`).join(', ');
  const other = by.map(({ key, sample }) => `${key}=${sample}-2`).join(', ');
  const isOfMonths = unit === Unit.MONTH || unit === Unit.YEAR;
  const later = isOfMonths ? [] : [`  - after: ${windowText(unit, multiplier)}`, `  - ${asked} -> OK`];
  return [
    `# Tests of these rules. To run them: ${command}`,
    'steps:',
    `  - ${asked} hits ${requests} -> OK (0 left)`,
    `  - ${asked} -> OVER_LIMIT`,
    `  - ${other} -> OK`,
    ...later,
    '',
  ].join('\n');
}

function profileText(domain: string, rate_limits: JsonObject[], refusedStatus = 429): string {
  const comment = '# How requests become descriptors, as in routes of Envoy: see docs/forward-auth.md.\n';
  return comment + yamlText({ profiles: { [domain]: { domain, refusedStatus, rate_limits } } });
}

/** Adapts an example, which uses the profile "shop", shows the limiter of the header x-plan, and names its own folder. */
function adapted(text: string, { proxy, domain, by }: StarterAnswers, folder: string): string {
  const headers = headersOf(by);
  const forNginx = headers.map((name) => `proxy_set_header ${name} $http_${name.replaceAll('-', '_')};`);
  return (
    text
      .replaceAll('/v1/forward-auth/shop', `/v1/forward-auth/${domain}`)
      .replaceAll('http-request lua.weir shop', `http-request lua.weir ${domain}`)
      .replace(/^ {4}shop:$/m, `    ${domain}:`)
      .replace(/^ *proxy_set_header X-Plan .*\n/m, () => forNginx.map((line) => `    ${line}\n`).join(''))
      .replace('{ "x-plan" }', `{ ${headers.map((name) => `"${name}"`).join(', ')} }`)
      // An empty list would mean all headers.
      .replace('[X-Plan]', headers.length === 0 ? '[X-Plan]' : `[${headers.join(', ')}]`)
      // The proxy must not remove headers that are counted.
      .replace(/^\t+header_up -(\S+)\n/gm, (line, name: string) =>
        headers.some((one) => one.toLowerCase() === name.toLowerCase()) ? '' : line,
      )
      .replaceAll(`examples/${proxy}/`, `${folder}/`)
  );
}

/** Profiles use the words of Envoy's configuration, too. */
function weirCheck(folder: string, files: ReadonlyMap<string, string>, weir: string): string {
  const parts = proxyFiles.filter((name) => files.has(name));
  return `${weir} check ${parts.map((name) => `--envoy ${folder}/${name} `).join('')}${folder}/config`;
}

function limiterCommand(folder: string, weir: string): string {
  // On loopback, operators may make changes without a token.
  return `DEBUG_HOST=127.0.0.1 BACKEND_TYPE=memory DISABLE_STATS=true RUNTIME_ROOT=${folder} RUNTIME_WATCH_ROOT=false ${weir} limiter`;
}

function curlCommand(by: readonly LimitedBy[]): string {
  const headers = by.flatMap(({ source, sample }) =>
    source.type === 'header' && !source.name.startsWith(':') ? [` -H '${source.name}: ${sample}'`] : [],
  );
  return `curl -so /dev/null -w '%{http_code} '${headers.join('')} localhost:10000/`;
}

function checkCommand({ by, domain }: StarterAnswers): string {
  const body = { domain, descriptors: [by.map(({ key, sample }) => ({ [key]: sample }))] };
  return `curl -so /dev/null -w '%{http_code} ' localhost:8080/v1/check --json '${JSON.stringify(body)}'`;
}

function repeated({ limit }: StarterAnswers, command: string): string {
  return `for i in $(seq ${limit.requests + 1}); do ${command}; done`;
}

function readme(
  { domain }: StarterAnswers,
  folder: string,
  steps: Starter['steps'],
  notes: Starter['notes'],
): string {
  const where = folder.startsWith('/')
    ? []
    : [
        '',
        `Run the commands in the folder in which you ran \`weir init\`. From there, this folder is \`${folder}\`.`,
      ];
  const lines = steps.flatMap(({ what, command }) => ['', what, '', '```sh', command, '```']);
  return [`# Rate limits of ${domain}`, ...where, ...lines, ...notes.flatMap((note) => ['', note]), ''].join(
    '\n',
  );
}
