import type { HttpCall } from '../../process/http/http-server.ts';
import type { HttpAsker } from './http-asker.ts';

/** A question below `/v1` that callers of the HTTP listener may ask, at one path. */
export interface CallerRoute {
  /** The rights that callers need, as bits of `Right`. Without them, the request is not read. */
  readonly right: number;
  /** Rejects with an `ApiProblem`. Any other error is a defect. */
  answer(call: HttpCall, asker: HttpAsker): Promise<void>;
}
