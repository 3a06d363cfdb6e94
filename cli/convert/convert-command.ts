import type { JsonObject } from '../../rules/model.ts';
import { namespaceProblem, objectNameProblem } from '../../rules/reader/read-manifests.ts';
import { formatRuleError } from '../../rules/rule-error.ts';
import { decodeYaml } from '../../rules/yaml/text.ts';
import { rootsOf } from '../shared/contained-files.ts';
import {
  choiceOf,
  commandOf,
  hintOf,
  type ParsedFlags,
  printProblem,
  rejectIdle,
  UsageError,
} from '../shared/flags.ts';
import { io } from '../shared/io.ts';
import {
  printInputErrors,
  printLoadConflicts,
  type RuleInput,
  readInput,
  servedByFlags,
  sourcesServedBy,
} from '../shared/read-input.ts';
import { outputForm as outputFormat } from '../shared/report.ts';
import { valueText } from '../shared/text.ts';
import { yamlText } from '../shared/yaml-text.ts';
import { type Conversion, convertRules, omittedFields, targets } from './converted-rules.ts';

const help = `Usage: weir convert <rules> --to rules|manifest|xds [flags]

Converts rules to another format, and writes them to standard output: a rule file, manifests (RateLimitConfig), or an xDS discovery response in JSON. <rules> is a file or folder of any of the three, or - for standard input. The same limits apply to the same requests under the same counter keys. If the new format cannot express something, the command reports it as an error.

  --to rules|manifest|xds   the new format
  --domain <domain>         only this domain, if there are several
  --name <name>             the name of the object or resource (default: unchanged, else derived from the domain)
  --namespace <namespace>   the namespace of the object (default: unchanged, else none)
  --class <class>           the class of the object; for other formats: the class of the manifests to read
  --fleet <fleet>           the fleet of the object; for other formats: the fleet of the manifests to read
  --merge-domain-configs    allow several files for one domain, as MERGE_DOMAIN_CONFIG=true does
  --root <folder>           do not read files outside this folder (default: the folder of a file that you name). Repeat the flag for several. Links that point outside a folder of rules are never followed
  --allow-loss              leave out what the new format cannot express, with a warning
  -o, --output yaml|json    YAML (default) or JSON; xds is always JSON

  weir convert examples/rules --to manifest --namespace shop | kubectl apply -f -
  weir convert examples/manifests --to rules --domain shop > shop.yaml

Comments, annotations and status are not converted. Exit status: 0 when everything was converted. 1 when something cannot be converted; the command then writes nothing. 2 for a wrong command line, or rules that cannot be read.
`;

export const convertCommand = commandOf(help, convert);

function convert(flags: ParsedFlags): number {
  const format = outputFormat(flags);
  const target = choiceOf(flags, 'to', targets);
  if (target === undefined) throw new UsageError('convert needs --to rules, manifest or xds');
  if (target === 'manifest') rejectBadNames(flags);
  else rejectIdle(flags, target === 'rules' ? ['name', 'namespace'] : ['namespace'], `with --to ${target}`);
  const [path, stray] = flags.positionals;
  if (path === undefined) throw new UsageError('convert needs rules: a file or a folder');
  if (stray !== undefined) throw new UsageError(`convert accepts one set of rules: remove "${stray}"`);
  const mergeDomains = flags.on('merge-domain-configs');
  const input = readInput(path, { mergeDomains, roots: rootsOf(flags) });
  if (printInputErrors(input)) return 2;
  warnOfRepeatedKeys(input);
  const chosen = servedByFlags(flags);
  const served = target === 'manifest' ? input.sources : sourcesServedBy(input.sources, chosen);
  const domain = flags.text('domain');
  const sources = served.filter(({ source }) => domain === undefined || source.domain === domain);
  if (sources.length === 0) {
    const domains = [...new Set(served.map((one) => one.source.domain))];
    const hint = domain === undefined ? '' : hintOf(domain, domains);
    throw new UsageError(`${path}: it has no rules for that domain, class and fleet${hint}`);
  }
  // Several objects may claim one domain. The control plane decides between them.
  if (target !== 'manifest' && printLoadConflicts(sources, { mergeDomains })) return 2;
  const name = flags.text('name');
  if (name !== undefined && sources.length > 1) {
    throw new UsageError(`--name is for one domain, and there are ${sources.length} sets of rules`);
  }
  const conversion = convertRules(sources, target, { name, namespace: flags.text('namespace'), ...chosen });
  if (isRejected(conversion, flags.on('allow-loss'))) return 1;
  for (const words of omittedFields(sources, target)) printProblem(`warning: ${words}`);
  if (format !== 'json' && target !== 'xds') noteComments(input);
  io().stdout.write(written(conversion.documents, target === 'xds' ? 'json' : format));
  return 0;
}

/** @throws UsageError */
function rejectBadNames(flags: ParsedFlags): void {
  const [name, namespace] = [flags.text('name'), flags.text('namespace')];
  const nameProblem = name === undefined ? undefined : objectNameProblem(name);
  if (nameProblem !== undefined) throw new UsageError(`--name ${nameProblem}`);
  const problem = namespace === undefined ? undefined : namespaceProblem(namespace);
  if (problem !== undefined) throw new UsageError(`--namespace ${problem}`);
}

/** Prints what cannot be converted, and returns whether the conversion ends. */
function isRejected({ losses, problems }: Conversion, allowLoss: boolean): boolean {
  for (const problem of problems) printProblem(problem);
  for (const loss of losses) printProblem(`${allowLoss ? 'warning: ' : ''}${loss}`);
  if (losses.length > 0 && !allowLoss) printProblem('--allow-loss omits it');
  return problems.length > 0 || (losses.length > 0 && !allowLoss);
}

/** Limiters load such files, as the Go service does, so the conversion goes on. */
function warnOfRepeatedKeys({ warnings }: RuleInput): void {
  for (const warning of warnings) {
    if (warning.code === 'duplicate-key') printProblem(`warning: ${formatRuleError(warning)}`);
  }
}

function noteComments({ texts }: RuleInput): void {
  const hasComments = texts.some(({ text }) => {
    const decoded = decodeYaml(text);
    return typeof decoded === 'string' && /(?:^|\s)#/m.test(decoded);
  });
  if (hasComments) printProblem('comments are lost');
}

function written(documents: readonly JsonObject[], form: string): string {
  if (form !== 'json') return documents.map(yamlText).join('---\n');
  const [only, ...more] = documents;
  const value = more.length === 0 ? only : { apiVersion: 'v1', kind: 'List', items: documents };
  return valueText(value, 'json');
}
