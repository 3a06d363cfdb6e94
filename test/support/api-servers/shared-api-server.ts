import { readdirSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { parse } from 'yaml';
import { askApiServer } from '../api-server.ts';
import { untilTrue } from '../machine-load.ts';
import type { ApiServerProcesses } from './api-server-processes.ts';
import { CleanState } from './clean-state.ts';

const crdFolder = fileURLToPath(new URL('../../../crds/', import.meta.url));

/** Chosen: a kind is served a second after its definition on an idle machine. Multiplied by the machine's load. */
const timeoutMs = 30_000;

/**
 * A server that suites have one after the other. Between them our kinds stay installed: to install them takes the server a second of a
 * processor. A suite that installs them itself gets the server without.
 */
export class SharedApiServer {
  readonly processes: ApiServerProcesses;
  lastSuite = '';
  readonly #bare: CleanState;
  #clean: CleanState;

  private constructor(processes: ApiServerProcesses, bare: CleanState) {
    this.processes = processes;
    this.#bare = bare;
    this.#clean = bare;
  }

  /** One that nobody has used. */
  static async of(processes: ApiServerProcesses): Promise<SharedApiServer> {
    return new SharedApiServer(processes, await CleanState.of(processes.place, processes.etcdUrl));
  }

  get hasKinds(): boolean {
    return this.#clean !== this.#bare;
  }

  /** Cleans it, and stops its processes until `prepare`. */
  async rest(): Promise<void> {
    await this.#clean.restore();
    this.processes.pause();
  }

  /** Clean again, since something that a suite left running may have written before it rested. */
  async prepare(kinds: boolean): Promise<void> {
    this.processes.resume();
    if (!kinds) this.#clean = this.#bare;
    await this.#clean.restore();
    if (kinds && !this.hasKinds) {
      await this.#installKinds();
      this.#clean = await CleanState.of(this.processes.place, this.processes.etcdUrl);
    }
  }

  async #installKinds(): Promise<void> {
    const { place } = this.processes;
    const path = '/apis/apiextensions.k8s.io/v1/customresourcedefinitions';
    const lists: string[] = [];
    for (const name of readdirSync(crdFolder)) {
      const definition = parse(readFileSync(`${crdFolder}${name}`, 'utf8'));
      const { status, body } = await askApiServer(place, path, { body: definition });
      if (status !== 201) throw new Error(`${name}: ${status} ${body}`);
      const { group, names, versions } = definition.spec;
      for (const version of versions) lists.push(`/apis/${group}/${version.name}/${names.plural}`);
    }
    let missing: string[] = [];
    const areServed = async (): Promise<boolean> => {
      const answers = await Promise.all(lists.map((list) => askApiServer(place, list)));
      missing = lists.filter((_, index) => answers[index]?.status !== 200);
      return missing.length === 0;
    };
    const failure = () => new Error(`not served: ${missing.join(', ')}`);
    await untilTrue(areServed, { timeoutMs, intervalMs: 50, failure });
  }
}
