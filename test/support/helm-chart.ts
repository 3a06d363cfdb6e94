/** The chart in charts/weir as Helm renders it, and the parts of Kubernetes objects that tests read. */
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll } from 'vitest';
import { parseDocument } from 'yaml';
import { BlockingWorker } from './blocking-worker.ts';
import { goOnce, helmCommandsProgram, helmProgram, programPath } from './find-server.ts';

export const chartFolder = join(import.meta.dirname, '../../charts/weir');

export type Values = Readonly<Record<string, unknown>>;

export interface EnvironmentVariable {
  name: string;
  value?: string;
  valueFrom?: {
    fieldRef?: { fieldPath: string };
    secretKeyRef?: { name: string; key: string };
  };
}

export interface Probe {
  httpGet: { path: string; port: string; scheme?: 'HTTPS' };
  periodSeconds: number;
  failureThreshold: number;
}

export interface Container {
  name: string;
  image: string;
  command: string[];
  args: string[];
  env: EnvironmentVariable[];
  ports: { name: string; containerPort: number }[];
  startupProbe?: Probe;
  livenessProbe?: Probe;
  readinessProbe?: Probe;
  volumeMounts?: { name: string; mountPath: string; readOnly?: boolean }[];
}

export interface PodTemplate {
  metadata: { labels: Record<string, string>; annotations?: Record<string, string> };
  spec: {
    serviceAccountName: string;
    automountServiceAccountToken: boolean;
    terminationGracePeriodSeconds: number;
    containers: [Container];
    volumes?: {
      name: string;
      secret?: { secretName: string };
      configMap?: { name: string };
      projected?: { sources: { serviceAccountToken: { audience: string; path: string } }[] };
    }[];
  } & Record<string, unknown>;
}

export interface RenderedObject {
  apiVersion: string;
  kind: string;
  metadata: {
    name: string;
    namespace?: string;
    labels: Record<string, string>;
    annotations?: Record<string, string>;
  };
  // biome-ignore lint/suspicious/noExplicitAny: what is in it depends on the kind
  spec?: any;
  data?: Record<string, string>;
  rules?: unknown[];
}

export interface ChartRun {
  status: number | null;
  stdout: string;
  stderr: string;
}

export const release = { name: 'weir', namespace: 'weir-system' } as const;

/** Each has its own arguments; undefined ends the process that runs them. */
type HelmQuestion = readonly string[] | undefined;

let commands: BlockingWorker<HelmQuestion, ChartRun> | undefined;

/** One process for all commands of a test file, which ends with the file. It knows no cluster and no settings of a user. */
function startCommands(): BlockingWorker<HelmQuestion, ChartRun> {
  const { PATH } = process.env;
  const env = { PATH, HOME: '/nonexistent', KUBECONFIG: '', GOMAXPROCS: '1', GOGC: '400' };
  return new BlockingWorker(
    `const { spawn } = require('node:child_process');
    const { once } = require('node:events');
    const { createInterface } = require('node:readline');
    const helm = spawn(data.path, { env: data.env, stdio: ['pipe', 'pipe', 'inherit'] });
    const answers = createInterface({ input: helm.stdout })[Symbol.asyncIterator]();
    answer = async (args) => {
      if (args === undefined) {
        helm.stdin.end();
        await once(helm, 'close');
        return;
      }
      helm.stdin.write(JSON.stringify(args) + '\\n');
      const { value, done } = await answers.next();
      if (done) throw new Error('helm-commands ended while it ran helm ' + args.join(' '));
      return JSON.parse(value);
    };`,
    { path: programPath(helmCommandsProgram), env },
  );
}

// So that what it took counts as the file's.
afterAll(() => {
  commands?.ask(undefined);
  commands = undefined;
});

/** Runs Helm with these values; `command` is all before them. Without a kubeconfig it reaches no cluster. */
export function runHelm(command: readonly string[], values: Values = {}, kubeconfig?: string): ChartRun {
  const folder = mkdtempSync(join(tmpdir(), 'weir-chart-'));
  try {
    const file = join(folder, 'values.yaml');
    writeFileSync(file, JSON.stringify(values));
    const args = [...command, ...(Object.keys(values).length === 0 ? [] : ['--values', file])];
    if (kubeconfig !== undefined) return spawnHelm(args, { HOME: folder, KUBECONFIG: kubeconfig });
    commands ??= startCommands();
    return commands.ask(args);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** Runs Helm as a program of its own: what it does to a cluster, it does once. */
export function spawnHelm(args: readonly string[], environment: NodeJS.ProcessEnv): ChartRun {
  const env = { PATH: process.env['PATH'], ...goOnce, ...environment };
  const options = { env, encoding: 'utf8', timeout: 60_000, maxBuffer: 64 * 1024 * 1024 } as const;
  const { status, stdout, stderr } = spawnSync(programPath(helmProgram), args, options);
  return { status, stdout, stderr };
}

const renderings = new Map<string, ChartRun>();

/** Renders each values once: the chart stays as it is while tests run. */
export function tryChart(values: Values): ChartRun {
  const key = JSON.stringify(values);
  let rendering = renderings.get(key);
  if (rendering === undefined) {
    rendering = runHelm(['template', release.name, chartFolder, '--namespace', release.namespace], values);
    renderings.set(key, rendering);
  }
  return rendering;
}

/** The text that Helm would apply. Throws an Error with Helm's message if it rejects the values. */
export function renderChartText(values: Values): string {
  const { status, stdout, stderr } = tryChart(values);
  if (status !== 0) throw new Error(stderr);
  return stdout;
}

export function renderChart(values: Values): RenderedObject[] {
  return objectsIn(renderChartText(values));
}

/** What `helm install` makes; the others are for `helm test`. */
export function installedOf(objects: readonly RenderedObject[]): RenderedObject[] {
  return objects.filter(({ metadata }) => metadata.annotations?.['helm.sh/hook'] === undefined);
}

/** The pod of `helm test`. */
export function testPodOf(objects: readonly RenderedObject[]): PodTemplate {
  const { metadata, spec } = objectOf(objects, 'Pod', '-test');
  return { metadata, spec };
}

/** By text: most documents of a rendering are the same in the next one, and the definitions take longer to read than all else. */
const readObjects = new Map<string, RenderedObject | null>();

/** The objects are shared by all who read the same text, so none may be changed. */
export function objectsIn(rendered: string): RenderedObject[] {
  return rendered
    .split(/^---$/m)
    .map((text) => {
      const known = readObjects.get(text);
      if (known !== undefined) return known;
      const object = frozen(parseDocument(text).toJS() as RenderedObject | null);
      readObjects.set(text, object);
      return object;
    })
    .filter((object) => object !== null);
}

function frozen<T>(value: T): T {
  if (typeof value !== 'object' || value === null) return value;
  for (const part of Object.values(value)) frozen(part);
  return Object.freeze(value);
}

/** What `helm install` prints after it has installed. */
export function chartNotes(values: Values): string {
  const install = ['install', release.name, chartFolder, '--namespace', release.namespace];
  // Without a cluster no note is about the definitions.
  const { status, stdout, stderr } = runHelm([...install, '--dry-run=client'], {
    crds: { enabled: false },
    ...values,
  });
  if (status !== 0) throw new Error(stderr);
  return stdout.slice(stdout.indexOf('NOTES:') + 'NOTES:\n'.length);
}

/** The one object of this kind whose name ends so. */
export function objectOf(objects: readonly RenderedObject[], kind: string, nameEnd = ''): RenderedObject {
  const found = objects.filter((each) => each.kind === kind && each.metadata.name.endsWith(nameEnd));
  if (found.length !== 1) throw new Error(`${found.length} objects are ${kind} ...${nameEnd}`);
  return found[0] as RenderedObject;
}

export function podOf(
  objects: readonly RenderedObject[],
  component: 'limiter' | 'control-plane',
): PodTemplate {
  return objectOf(objects, 'Deployment', component).spec.template as PodTemplate;
}
