/**
 * Which node takes writes for which slot, as the cluster itself says it: read at the start, every 5 s, after every MOVED
 * and four times a second while a node is missing. Between that, a MOVED counts at once.
 */
import { attendedTimers } from '../../../process/time/attended-time.ts';
import { StoreError } from '../store-error.ts';
import type { ClusterNodes } from './cluster-cluster-nodes.ts';
import type { ClusterNode } from './cluster-nodes.ts';
import { type NodePlace, placeName } from './node-place.ts';
import type { Redirection } from './redirection.ts';
import { parseSlotRanges, type SlotRange } from './slot-ranges.ts';

const usualIntervalMs = 5000;
const troubledIntervalMs = 250;
/** MOVED comes once a command in a batch; one reading answers all. */
const movedIntervalMs = 50;
const patienceMs = 1000;

export interface ClusterTopologyOptions {
  nodes: ClusterNodes;
  seeds: readonly NodePlace[];
  translate: (error: unknown) => StoreError;
}

export class ClusterTopology {
  readonly #options: ClusterTopologyOptions;
  readonly #slots: (ClusterNode | undefined)[] = new Array<undefined>(16_384).fill(undefined);
  #masters: ClusterNode[] = [];
  #reading: Promise<void> | undefined;
  #timer: NodeJS.Timeout | undefined;
  #dueMs = Number.POSITIVE_INFINITY;
  #closed = false;

  constructor(options: ClusterTopologyOptions) {
    this.#options = options;
  }

  nodeOf(slot: number): ClusterNode | undefined {
    return this.#slots[slot];
  }

  /** The nodes that take writes. */
  get masters(): readonly ClusterNode[] {
    return this.#masters;
  }

  /** Why the master that was missed last is not reached. */
  get lastFailure(): string | undefined {
    return this.#masters.findLast((node) => !node.reached)?.connection.lastFailure;
  }

  /** Where the command goes now. */
  redirected(redirection: Redirection): ClusterNode {
    const node = this.#options.nodes.at(redirection);
    if (!redirection.ask) {
      this.#slots[redirection.slot] = node;
      this.readWithin(movedIntervalMs);
    }
    return node;
  }

  /** A command found no node, or a node was lost. */
  troubled(): void {
    this.readWithin(troubledIntervalMs);
  }

  readWithin(delayMs: number): void {
    const dueMs = performance.now() + delayMs;
    if (this.#closed || this.#reading !== undefined || dueMs >= this.#dueMs) return;
    clearTimeout(this.#timer);
    this.#dueMs = dueMs;
    this.#timer = setTimeout(() => void this.read().catch(() => {}), delayMs);
    this.#timer.unref();
  }

  /** Asks nodes that answer first, then the seeds, until one answers. Rejects with the last error. */
  read(): Promise<void> {
    this.#reading ??= this.#read().finally(() => {
      this.#reading = undefined;
      this.#dueMs = Number.POSITIVE_INFINITY;
      this.readWithin(this.#isWhole() ? usualIntervalMs : troubledIntervalMs);
    });
    return this.#reading;
  }

  close(): void {
    this.#closed = true;
    clearTimeout(this.#timer);
  }

  async #read(): Promise<void> {
    const { nodes, seeds } = this.#options;
    let failure = new StoreError('Redis is not connected', { transient: true });
    const asked = new Set<ClusterNode>();
    const ask = async (node: ClusterNode): Promise<boolean> => {
      if (asked.has(node) || this.#closed) return false;
      asked.add(node);
      node.open();
      await node.opening;
      try {
        if (node.failure !== undefined) throw node.failure;
        const reply = await withinPatience(node.connection.send('cluster', ['slots']));
        this.#take(parsed(reply, node.place));
        return true;
      } catch (error) {
        failure = this.#options.translate(error);
        return false;
      }
    };
    for (const node of nodes.reached) if (await ask(node)) return;
    for (const seed of seeds) if (await ask(nodes.at(seed))) return;
    throw failure;
  }

  #take(ranges: readonly SlotRange[]): void {
    const { nodes } = this.#options;
    if (this.#closed) return;
    const masters = new Map(ranges.map(({ master }) => [placeName(master), nodes.at(master)]));
    this.#slots.fill(undefined);
    for (const { first, last, master } of ranges) {
      this.#slots.fill(masters.get(placeName(master)), first, last + 1);
    }
    this.#masters = [...masters.values()];
    for (const node of this.#masters) {
      node.open();
      void node.opening.then(() => this.#missed(node));
    }
    nodes.keep(new Set(masters.keys()));
  }

  /** A master that was never reached is lost as well as one that was. */
  #missed(node: ClusterNode): void {
    if (!this.#closed && this.#masters.includes(node)) node.tellIfMissed();
  }

  #isWhole(): boolean {
    return this.#masters.length > 0 && this.#masters.every((node) => node.reached);
  }
}

/** Rejects when there is no answer after `patienceMs`: another node may have one. */
async function withinPatience(reply: Promise<unknown>): Promise<unknown> {
  let callOff = (): void => {};
  const late = new Promise<never>((_, reject) => {
    const error = new StoreError(`Redis did not answer within ${patienceMs} ms`, { transient: true });
    callOff = attendedTimers.after(patienceMs, () => reject(error));
  });
  return Promise.race([reply, late]).finally(() => callOff());
}

function parsed(reply: unknown, from: NodePlace): SlotRange[] {
  const ranges = parseSlotRanges(reply, from);
  if (ranges === undefined || ranges.length === 0)
    throw new StoreError('Redis knows of no cluster slots', { transient: true });
  return ranges;
}
