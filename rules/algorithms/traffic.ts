/** How much a limit lets pass, which decides whether another limit ever rejects any of it. */
import type { Traffic, Windows } from './algorithm.ts';

/** Whether at most `room` hits of traffic at a rate come in one window. */
export function rateFits({ requests, atOnce, windows }: Traffic, window: number, room: bigint): boolean {
  const most = product(atOnce, windows.longest) + product(requests, window);
  return most <= room * BigInt(windows.longest);
}

/** How many windows of the traffic one window of the other limit can have a part of. */
export function touchedWindows({ shortest, step }: Windows, other: Windows, apart: number): number {
  if (apart > 0) return Math.floor((other.longest + apart) / shortest) + 2;
  const common = commonDivisor(step, other.step);
  return other.longest < 2 * common ? 1 : Math.floor((other.longest - 2 * common) / shortest) + 2;
}

function commonDivisor(a: number, b: number): number {
  return b === 0 ? a : commonDivisor(b, a % b);
}

/** Exact. */
export function product(a: number, b: number): bigint {
  return BigInt(a) * BigInt(b);
}
