import { type TooLargeOptions, TooLargeRequests } from '../../limiter/service/over-without-limit.ts';

/** As a limiter answers requests beyond the bounds unless it is configured otherwise. */
export function tooLargeRequests(options: Partial<TooLargeOptions> = {}): TooLargeRequests {
  return new TooLargeRequests({
    answer: 'over_limit',
    shadowMode: false,
    onTooLarge: () => {},
    onGlobalShadow: () => {},
    ...options,
  });
}
