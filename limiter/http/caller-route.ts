import type { AdmittedCaller } from '../../process/grpc/handlers.ts';
import type { ApiMethod } from '../../process/http/api-route.ts';
import type { HttpCall } from '../../process/http/http-server.ts';
import type { HttpAsker } from './http-asker.ts';

/**
 * A question below `/v1` that callers of the HTTP listener may ask, at one path. A path that ends with a name in braces stands for all
 * paths below, which are served as they were sent.
 */
export interface CallerRoute {
  /** The rights that callers need, as bits of `Right`. Without them, the request is not read. */
  readonly right: number;
  /** The method that it takes, and the parameters of the query. Undefined: any, because the question is another request. */
  readonly takes?: { readonly method: ApiMethod; readonly parameters: readonly string[] };
  /** Rejects with an `ApiProblem`. Any other error is a defect. */
  answer(call: HttpCall, asker: HttpAsker): Promise<void>;
  /**
   * Answers a request beyond the rate of its caller as if it exceeded a limit, for this `reason`, before it is read. Undefined: it is
   * rejected. Rejects with an `ApiProblem`.
   */
  answerExcess?(call: HttpCall, caller: AdmittedCaller, reason: string): Promise<void>;
}
