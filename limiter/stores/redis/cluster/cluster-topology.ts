import { unblockedTimers } from '../../../../process/time/clock.ts';
import { hashTagOf } from '../../store.ts';
import { StoreError } from '../../store-error.ts';
import { type NodePlace, placeName } from '../wire/redis-address.ts';
import { UnexpectedReply } from '../wire/resp.ts';
import type { ClusterNode, ClusterNodes } from './cluster-nodes.ts';

/** A node's answer that a key is on another node. The node did not execute the command. */
export interface Redirection extends NodePlace {
  /** Whether only this command goes there, after ASKING, because the slot is moving. Otherwise the slot has moved. */
  ask: boolean;
  slot: number;
}

/** Slots `first` to `last`, and the node that accepts writes for them. */
interface SlotRange {
  first: number;
  last: number;
  master: NodePlace;
}

/** Reads the reply to CLUSTER SLOTS. Returns undefined if it is not such a reply. A node without a host is the node that was asked. */
export function parseSlotRanges(reply: unknown, from: NodePlace): SlotRange[] | undefined {
  if (!Array.isArray(reply)) return undefined;
  const ranges: SlotRange[] = [];
  for (const entry of reply as unknown[]) {
    if (!Array.isArray(entry) || !Array.isArray(entry[2])) return undefined;
    const [first, last] = entry as unknown[];
    const [name, port] = entry[2] as unknown[];
    if (!isWithin(first, slotCount - 1) || !isWithin(last, slotCount - 1) || !isWithin(port, 65_535))
      return undefined;
    if (first > last || !(name === null || name instanceof Buffer)) return undefined;
    const host = name === null ? '' : name.toString();
    ranges.push({ first, last, master: { host: host === '' || host === '?' ? from.host : host, port } });
  }
  return ranges;
}

function isWithin(reply: unknown, max: number): reply is number {
  return typeof reply === 'number' && reply >= 0 && reply <= max;
}

// Knows the node that accepts writes for each slot, as reported by the cluster. The topology is read at the start, every 5 s, after every
// MOVED, and four times a second while a node is missing. In between, a MOVED applies immediately.

const defaultIntervalMs = 5000;
const troubledIntervalMs = 250;
/** Each command of a batch may get a MOVED. Reading the topology once answers all of them. */
const movedIntervalMs = 50;
const patienceMs = 1000;

export interface ClusterTopologyOptions {
  nodes: ClusterNodes;
  seeds: readonly NodePlace[];
  translate: (error: unknown) => StoreError;
  /** Called once for a master that was never reached. */
  onMissed: (place: NodePlace, reason: string) => void;
}

export class ClusterTopology {
  readonly #options: ClusterTopologyOptions;
  readonly #slots: (ClusterNode | undefined)[] = new Array<undefined>(16_384).fill(undefined);
  #masters: ClusterNode[] = [];
  readonly #neverReached = new WeakSet<ClusterNode>();
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

  /** The nodes that accept writes. */
  get masters(): readonly ClusterNode[] {
    return this.#masters;
  }

  /** The reason why the last missing master is not connected. */
  get lastFailure(): string | undefined {
    return this.#masters.findLast(({ connection }) => !connection.connected)?.connection.lastFailure;
  }

  /** Returns the node that the command now goes to. */
  redirected(redirection: Redirection): ClusterNode {
    const node = this.#options.nodes.at(redirection);
    if (!redirection.ask) {
      this.#slots[redirection.slot] = node;
      this.readWithin(movedIntervalMs);
    }
    return node;
  }

  /** Records that a command found no node, or that a node was lost. */
  troubled(): void {
    this.readWithin(troubledIntervalMs);
  }

  readWithin(delayMs: number): void {
    const dueMs = performance.now() + delayMs;
    if (this.#closed || this.#reading !== undefined || dueMs >= this.#dueMs) return;
    clearTimeout(this.#timer);
    this.#dueMs = dueMs;
    this.#timer = setTimeout(() => void this.read().catch(() => {}), delayMs).unref();
    this.#timer.unref();
  }

  /** Asks nodes that answered before, then the seeds, until one answers. Rejects with the last error. */
  read(): Promise<void> {
    this.#reading ??= this.#read().finally(() => {
      this.#reading = undefined;
      this.#dueMs = Number.POSITIVE_INFINITY;
      this.readWithin(this.#isWhole() ? defaultIntervalMs : troubledIntervalMs);
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
      const unopened = await node.open();
      try {
        if (unopened !== undefined) throw unopened;
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
      void node.open().then((failure) => failure && this.#missed(node, failure));
    }
    nodes.keep(new Set(masters.keys()));
  }

  /** Reports a master that was never reached as lost, too, once. */
  #missed(node: ClusterNode, { message }: StoreError): void {
    if (this.#closed || !this.#masters.includes(node) || this.#neverReached.has(node)) return;
    this.#neverReached.add(node);
    this.#options.onMissed(node.place, message);
  }

  #isWhole(): boolean {
    return this.#masters.length > 0 && this.#masters.every(({ connection }) => connection.connected);
  }
}

/** Rejects if there is no answer after `patienceMs`: another node may have one. */
async function withinPatience(reply: Promise<unknown>): Promise<unknown> {
  let callOff = (): void => {};
  const late = new Promise<never>((_, reject) => {
    const error = new StoreError(`Redis did not answer within ${patienceMs} ms`, { transient: true });
    callOff = unblockedTimers.after(patienceMs, () => reject(error));
  });
  return Promise.race([reply, late]).finally(() => callOff());
}

function parsed(reply: unknown, from: NodePlace): SlotRange[] {
  const ranges = parseSlotRanges(reply, from);
  if (ranges === undefined) throw new UnexpectedReply('CLUSTER SLOTS', reply);
  if (ranges.length === 0) throw new StoreError('Redis knows of no cluster slots', { transient: true });
  return ranges;
}

/** The number of slots of a Redis Cluster. Redis Cluster specification, "Key distribution model". */
const slotCount = 16_384;

/** CRC-16/XMODEM of every byte: polynomial 0x1021, initial value 0. */
const crcTable = Uint16Array.from({ length: 256 }, (_, byte) => {
  let crc = byte << 8;
  for (let bit = 0; bit < 8; bit += 1) crc = (crc & 0x8000) === 0 ? crc << 1 : (crc << 1) ^ 0x1021;
  return crc;
});

/** Returns the slot of a key, from the UTF-8 bytes of its hash tag. */
export function keySlot(key: string): number {
  return crc16(hashTagOf(key)) % slotCount;
}

function crc16(text: string): number {
  let crc = 0;
  for (let i = 0; i < text.length; i += 1) {
    const code = text.charCodeAt(i);
    if (code > 0x7f) return crc16OfBytes(Buffer.from(text));
    crc = step(crc, code);
  }
  return crc;
}

function crc16OfBytes(bytes: Uint8Array): number {
  let crc = 0;
  for (const byte of bytes) crc = step(crc, byte);
  return crc;
}

function step(crc: number, byte: number): number {
  return ((crc << 8) & 0xffff) ^ (crcTable[(crc >> 8) ^ byte] as number);
}
