import type { NodePlace } from './node-place.ts';

/** A node's word that a key is elsewhere. It ran nothing. */
export interface Redirection extends NodePlace {
  /** Only this command goes there, after ASKING: the slot is on its way. Otherwise the slot has moved. */
  ask: boolean;
  slot: number;
}

/** Reads `MOVED <slot> <host>:<port>` and `ASK ...`; without a host it is that of the node that said it. */
export function parseRedirection(error: unknown, from: NodePlace): Redirection | undefined {
  if (!(error instanceof Error)) return undefined;
  const [, word, slot, host, port] = /^(MOVED|ASK) (\d{1,5}) (\S*):(\d{1,5})$/.exec(error.message) ?? [];
  if (word === undefined) return undefined;
  return {
    ask: word === 'ASK',
    slot: Number(slot),
    host: host === undefined || host === '' || host === '?' ? from.host : host,
    port: Number(port),
  };
}
