/**
 * Runs the container of a rendered pod as a process of this machine: with its command, arguments and environment, and
 * with the files of its volumes in a folder in place of /etc/weir. What the image adds is this checkout's program in
 * place of /bin/weir.
 */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { ChildProgram } from './child-program.ts';
import { freePort } from './free-port.ts';
import type { EnvironmentVariable, PodTemplate, Probe } from './helm-chart.ts';
import { type HttpAnswer, httpAsk } from './http-ask.ts';
import { weirProgram } from './weir-program.ts';

export interface PodOptions {
  name: string;
  namespace: string;
  /** Secrets and ConfigMaps of the namespace: their files by name. */
  data?: Readonly<Record<string, Readonly<Record<string, string>>>>;
  /** The token of the pod's service account for an audience. */
  token?(audience: string): string;
  /** Addresses of this machine for those that only a cluster knows, in arguments. */
  addresses?: Readonly<Record<string, string>>;
  /** What Kubernetes would give the pod besides: the way to the API server. */
  env?: Readonly<Record<string, string>>;
}

export type ProbeName = 'startupProbe' | 'livenessProbe' | 'readinessProbe';

export class PodProcess {
  readonly program: ChildProgram;
  readonly #pod: PodTemplate;
  readonly #folder = mkdtempSync(join(tmpdir(), 'weir-pod-'));

  constructor(pod: PodTemplate, options: PodOptions) {
    this.#pod = pod;
    this.#writeVolumes(options);
    const { command, args } = pod.spec.containers[0];
    if (command.join() !== '/bin/weir') throw new Error(`the image has no ${command.join(' ')}`);
    this.program = new ChildProgram({
      command: process.execPath,
      args: [weirProgram, ...args.map((argument) => this.#onThisMachine(argument, options))],
      env: { PATH: process.env['PATH'], ...this.#environment(options), ...options.env },
    });
  }

  port(name: string): number {
    const port = this.#pod.spec.containers[0].ports.find((each) => each.name === name);
    if (port === undefined) throw new Error(`the container has no port ${name}`);
    return port.containerPort;
  }

  /** Asks as the kubelet does; 0 is the status of a connection that is rejected. */
  async probe(name: ProbeName): Promise<number> {
    const { path, port, scheme } = (this.#pod.spec.containers[0][name] as Probe).httpGet;
    // The kubelet takes any certificate.
    const options = scheme === 'HTTPS' ? { tls: {} } : {};
    const asked: Pick<HttpAnswer, 'status'> = await httpAsk(this.port(port), path, options).catch(() => ({
      status: 0,
    }));
    return asked.status;
  }

  async stop(signal: NodeJS.Signals = 'SIGTERM'): Promise<void> {
    if (this.program.running) await this.program.stop(signal);
    rmSync(this.#folder, { recursive: true, force: true });
  }

  #onThisMachine(argument: string, { addresses = {} }: PodOptions): string {
    const places = Object.entries({ ...addresses, '/etc/weir': this.#folder });
    return places.reduce((text, [from, to]) => text.replaceAll(from, to), argument);
  }

  #environment(options: PodOptions): Record<string, string> {
    const { env = [] } = this.#pod.spec.containers[0];
    return Object.fromEntries(
      env.map((variable) => [
        variable.name,
        valueFor(variable, options).replaceAll('/etc/weir', this.#folder),
      ]),
    );
  }

  #writeVolumes({ data = {}, token }: PodOptions): void {
    const { volumes = [], containers } = this.#pod.spec;
    for (const { name, mountPath } of containers[0].volumeMounts ?? []) {
      const volume = volumes.find((each) => each.name === name);
      const source = volume?.secret?.secretName ?? volume?.configMap?.name ?? '';
      const folder = mountPath.replace('/etc/weir', this.#folder);
      mkdirSync(folder, { recursive: true });
      if (volume?.projected !== undefined) {
        const { audience, path } = volume.projected.sources[0]?.serviceAccountToken ?? {
          audience: '',
          path: '',
        };
        if (token === undefined) throw new Error(`volume ${name}: there is no token for ${audience}`);
        writeFileSync(join(folder, path), token(audience));
        continue;
      }
      const files = data[source];
      if (files === undefined) throw new Error(`volume ${name}: there is no ${source}`);
      for (const [file, text] of Object.entries(files)) writeFileSync(join(folder, file), text);
    }
  }
}

/** Values for pods that all have this machine's address, and so need ports of their own. */
export async function portsOfThisMachine(): Promise<{
  limiter: { ports: Record<string, number>; xdsAddress: string };
  controlPlane: { ports: Record<string, number> };
}> {
  const take = async (names: readonly string[]) =>
    Object.fromEntries(await Promise.all(names.map(async (name) => [name, await freePort()] as const)));
  const own = await take(['xds', 'metrics', 'api']);
  return {
    limiter: {
      ports: await take(['grpc', 'http', 'metrics', 'debug']),
      xdsAddress: `127.0.0.1:${own['xds']}`,
    },
    controlPlane: { ports: own },
  };
}

function valueFor({ name, value, valueFrom }: EnvironmentVariable, options: PodOptions): string {
  if (value !== undefined) return value;
  if (valueFrom?.fieldRef?.fieldPath === 'metadata.name') return options.name;
  if (valueFrom?.fieldRef?.fieldPath === 'metadata.namespace') return options.namespace;
  const secret = valueFrom?.secretKeyRef;
  const found = secret && options.data?.[secret.name]?.[secret.key];
  if (found === undefined) throw new Error(`${name} has no value`);
  return found;
}
