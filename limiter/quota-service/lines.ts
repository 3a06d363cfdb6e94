/** Log lines about clients of the quota service, and about rules that it cannot assign. */
import { warn } from '../../process/log/log-line.ts';

/** What a line says about a client. `times`: the number of events since the last line of this kind. */
interface OfClient {
  caller: string | undefined;
  peer: string;
  times: number;
}

/** The lines with `times` are logged at most once a minute for each kind. */
export const lines = {
  bucketsDenied: warn<{ bound: string } & OfClient>(
    'A quota client has too many buckets: requests for further ones are denied',
  ),
  overReported: warn<{ rule: string; hits: number } & OfClient>(
    'A quota client reports more requests than it could have allowed',
  ),
  ruleNotAssigned: warn<{ obstacle: string; rule: string; answer: string; times: number }>(
    ({ obstacle }) => `A rule cannot be assigned to quota clients: ${obstacle}`,
    ({ rule, answer, times }) => ({ rule, answer, times }),
  ),
  /** Logged at each load, before a client asks for these rules. `first` is the path of one of them. */
  rulesNotAssigned: warn<{ why: string; rules: number; first: string; answer: string }>(
    ({ why }) => `Rules cannot be assigned to quota clients: ${why}`,
    ({ rules, first, answer }) => ({ rules, first, answer }),
  ),
};
