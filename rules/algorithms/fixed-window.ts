import { product, type RuleAlgorithm, rateFits, touchedWindows, withoutBurst } from './algorithm.ts';

/** Counts the hits of each window separately. */
export const fixedWindow: RuleAlgorithm = {
  ...withoutBurst,
  steady: undefined,
  countsAllHits: true,
  effect: 'up to twice as many requests may pass around the end of a fixed window',
  admitsAll(traffic, { requests, windows }, apart) {
    if (traffic.algorithm.isRate) return rateFits(traffic, windows.longest + apart, BigInt(requests));
    const touched = touchedWindows(traffic.windows, windows, apart);
    return product(traffic.requests, touched) <= BigInt(requests);
  },
};
