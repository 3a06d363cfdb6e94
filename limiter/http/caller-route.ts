import type { HttpCall } from '../../process/http/http-server.ts';
import type { HttpAsker } from './http-asker.ts';

/** What callers of the HTTP listener may ask below `/v1`, by one path. */
export interface CallerRoute {
  /** Bits of `Right` that callers need, without which nothing is looked at. */
  readonly right: number;
  /** Rejects with an `ApiProblem`; anything else is a fault of ours. */
  answer(call: HttpCall, asker: HttpAsker): Promise<void>;
}
