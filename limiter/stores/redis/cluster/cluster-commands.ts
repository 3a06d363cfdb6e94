import { unblockedMs } from '../../../../process/time/clock.ts';
import { StoreError } from '../../store-error.ts';
import { type NodePlace, placeName } from '../wire/redis-address.ts';
import type { KeyedCommands } from '../wire/redis-connection.ts';
import { isTimeout, notConnected, type RedisErrors } from '../wire/redis-error.ts';
import type { ClusterNode } from './cluster-nodes.ts';
import { type ClusterTopology, keySlot, type Redirection } from './cluster-topology.ts';

/** Reads `MOVED <slot> <host>:<port>` and `ASK ...`. If there is no host, the host of the answering node applies. */
export function parseRedirection(error: unknown, from: NodePlace): Redirection | undefined {
  if (!(error instanceof Error)) return undefined;
  const [, word, slot, host, port] = /^(MOVED|ASK) (\d{1,5}) (\S*):(\d{1,5})$/.exec(error.message) ?? [];
  if (word === undefined || Number(slot) > 16_383 || Number(port) > 65_535) return undefined;
  return {
    ask: word === 'ASK',
    slot: Number(slot),
    host: host === undefined || host === '' || host === '?' ? from.host : host,
    port: Number(port),
  };
}

/** The number of redirections that the Go service's client follows. */
const maxRedirections = 5;

export interface ClusterCommandsOptions {
  topology: ClusterTopology;
  errors: RedisErrors;
  /** After this time, a command is not sent to further nodes. */
  timeoutMs: number;
}

/**
 * Sends each command to the node that holds its key's slot. A command is sent again only if a node answered that it did not execute it
 * and which node would (MOVED, ASK). A command whose reply was lost results in an error.
 */
export class ClusterCommands implements KeyedCommands {
  readonly #options: ClusterCommandsOptions;

  constructor(options: ClusterCommandsOptions) {
    this.#options = options;
  }

  async send(key: string, name: string, args: string[]): Promise<unknown> {
    const { topology } = this.#options;
    const node = topology.nodeOf(keySlot(key));
    if (node === undefined || !node.connection.connected) {
      topology.troubled();
      throw node === undefined ? noNode() : nodeNotConnected(node);
    }
    try {
      return await node.connection.send(name, args);
    } catch (error) {
      return this.#follow({ error, node, name, args });
    }
  }

  translate(error: unknown): StoreError {
    return error instanceof StoreError ? error : this.#options.errors.fromCommand(error);
  }

  placeOf(key: string): unknown {
    return this.#options.topology.nodeOf(keySlot(key));
  }

  async #follow(sent: { error: unknown; node: ClusterNode; name: string; args: string[] }): Promise<unknown> {
    const { topology, errors, timeoutMs } = this.#options;
    const { name, args } = sent;
    const endMs = unblockedMs() + timeoutMs;
    let { error, node } = sent;
    for (let redirections = 1; redirections <= maxRedirections; redirections += 1) {
      const redirection = parseRedirection(error, node.place);
      if (redirection === undefined) break;
      if (unblockedMs() >= endMs) throw errors.timedOut().marked(true);
      node = topology.redirected(redirection);
      await node.open();
      if (!node.connection.connected) throw nodeNotConnected(node);
      try {
        // Both are written one after the other, so that no other command comes between ASKING and its command.
        if (redirection.ask) node.connection.send('asking', []).catch(() => {});
        return await node.connection.send(name, args);
      } catch (next) {
        error = next;
      }
    }
    if (isClusterDown(error)) topology.troubled();
    throw isTimeout(error) && error.afterMs < timeoutMs ? nodeIsSilent(node) : error;
  }
}

function noNode(): StoreError {
  const text = 'no node of the Redis Cluster accepts writes for the slot of this key';
  return new StoreError(text, { transient: true, notCounted: true });
}

function nodeNotConnected({ place, connection }: ClusterNode): StoreError {
  return notConnected(`node ${placeName(place)}`, connection.lastFailure);
}

function nodeIsSilent({ place }: ClusterNode): StoreError {
  const text = `node ${placeName(place)} did not answer in time (STORE_BREAKER_SILENCE)`;
  return new StoreError(text, { transient: true });
}

function isClusterDown(error: unknown): boolean {
  return error instanceof Error && error.message.startsWith('CLUSTERDOWN');
}
