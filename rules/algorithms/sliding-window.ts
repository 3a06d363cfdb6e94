import {
  product,
  type RuleAlgorithm,
  rateFits,
  type Traffic,
  touchedWindows,
  withoutBurst,
} from './algorithm.ts';

/** Of the previous window, the part counts that began less than one window length ago. */
export const slidingWindow: RuleAlgorithm = {
  ...withoutBurst,
  steady: { keyWord: 'sliding', words: ({ window }) => `window: the last ${window}` },
  countsAllHits: false,
  effect: 'hits of the previous window still count in part, so there is no second burst at its end',
  admitsAll(traffic, own, apart) {
    const room = BigInt(own.requests - roundedOff(own));
    if (traffic.algorithm.isRate) return rateFits(traffic, own.windows.longest + apart, room);
    let touched = touchedWindows(traffic.windows, own.windows, apart);
    if (touched > 1 || traffic.algorithm !== slidingWindow) {
      // The former one whole, and as much of the current as its share has sunk, but for windows that have just begun.
      touched += Math.min(touched, 2 + Math.ceil(apart / traffic.windows.shortest));
    }
    return product(traffic.requests, touched) <= room;
  },
};

/** Returns how many hits the arithmetic of a large window may count too many: one tick of the former window. */
function roundedOff({ requests, windows }: Traffic): number {
  const largestExactNumber = Number.MAX_SAFE_INTEGER;
  const isExact = requests * windows.longest * 1e6 <= largestExactNumber;
  return isExact ? 0 : Math.ceil((11 * requests ** 2) / largestExactNumber);
}
