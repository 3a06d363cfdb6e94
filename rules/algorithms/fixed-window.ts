import { product, type RuleAlgorithm, rateFits, touchedWindows, withoutBurst } from './algorithm.ts';

/** Counts the hits of each window separately. */
export const fixedWindow: RuleAlgorithm = {
  ...withoutBurst,
  steady: undefined,
  countsAllHits: true,
  effect: "twice as much may come around a fixed window's edge",
  admitsAll(traffic, { requests, windows }, apart) {
    if (traffic.algorithm.isRate) return rateFits(traffic, windows.longest + apart, BigInt(requests));
    const touched = touchedWindows(traffic.windows, windows, apart);
    return product(traffic.requests, touched) <= BigInt(requests);
  },
};
