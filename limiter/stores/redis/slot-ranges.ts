import type { NodePlace } from './node-place.ts';

/** Slots `first` to `last` and the node that takes writes for them. */
export interface SlotRange {
  first: number;
  last: number;
  master: NodePlace;
}

/** Reads the reply to CLUSTER SLOTS; undefined when it is none. A node without a host is the one that was asked. */
export function parseSlotRanges(reply: unknown, from: NodePlace): SlotRange[] | undefined {
  if (!Array.isArray(reply)) return undefined;
  const ranges: SlotRange[] = [];
  for (const entry of reply as unknown[]) {
    if (!Array.isArray(entry) || !Array.isArray(entry[2])) return undefined;
    const [first, last] = entry as unknown[];
    const [name, port] = entry[2] as unknown[];
    if (typeof first !== 'number' || typeof last !== 'number' || typeof port !== 'number') return undefined;
    const host = name === null ? '' : String(name);
    ranges.push({ first, last, master: { host: host === '' || host === '?' ? from.host : host, port } });
  }
  return ranges;
}
