/** Known defects, one for the short form of each long test, which has to find it in the running program. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { projectRoot } from '../../scripts/commands.ts';
import { withChangedProgram } from '../support/weir-program.ts';
import { type Defect, mutated } from './mutant-source.ts';

export const longTestDefects = {
  truth: {
    defect: 'a limiter is taken to apply what it was sent',
    file: 'control-plane/reconcile/limiter-view.ts',
    within: 'LimiterLook.#inForce',
    search: 'const number = this.#numberOf(report, versionInForce(report));',
    replace: 'const number = this.#numberOf(report, sentVersion);',
  },
  simulation: {
    defect: 'a limiter that has not answered yet is taken to apply what it was sent',
    file: 'control-plane/reconcile/limiter-view.ts',
    within: 'LimiterLook.#inForce',
    search: 'const number = this.#numberOf(report, versionInForce(report));',
    replace: 'const number = this.#numberOf(report, sentVersion ?? versionInForce(report));',
  },
  soak: {
    defect: 'each connection that has ended leaves 128 KiB of memory behind',
    file: 'limiter/sockets/socket-server.ts',
    within: 'Http2SocketServer.#closed',
    search: 'this.#connections.delete(connection);',
    replace: 'this.#connections.delete(connection); (globalThis.left ??= []).push(new ArrayBuffer(2 ** 17));',
  },
  attacks: {
    defect: 'a peer may send control frames without end',
    file: 'limiter/http2/connection-context.ts',
    within: 'ConnectionContext.spendControl',
    search: "throw enhanceYourCalmError('control_flood');",
    replace: '',
  },
  quotaAttacks: {
    defect: 'a stream of a quota client may have any number of buckets',
    file: 'limiter/quota-service/bucket-ids.ts',
    within: 'BucketIds.take',
    search: "if (ofStream >= bounds.ofStream) return 'stream';",
    replace: '',
  },
  budgets: {
    defect: 'a reservation is never given back',
    file: 'limiter/stores/redis/lua/reservation-script.ts',
    within: 'luaReservationSection',
    search: 'else counter.delta = 0 - my.giveBackOf(counter, record, 0 - more) end',
    replace: 'else counter.delta = 0 end',
  },
  faults: {
    defect: 'hits that were counted while Redis was away never reach it',
    file: 'limiter/stores/failure/owed-counters.ts',
    within: 'OwedCounters.take',
    search: 'counter.endMs > nowMs',
    replace: 'counter.endMs < nowMs',
  },
  quota: {
    defect: 'each limiter shares out the whole limit',
    file: 'limiter/allocate/account.ts',
    within: 'AccountedLimit.message',
    search: 'const { key, ttlSeconds } = account.window;',
    replace: 'const { ttlSeconds } = account.window; const key = account.window.key + limiter;',
  },
} as const satisfies Record<string, Defect>;

/** Runs something with a program that has the defect; sources on disk stay unchanged. @throws MutantError where it no longer applies */
export function withDefect<Result>(defect: Defect, act: () => Promise<Result>): Promise<Result> {
  const path = join(projectRoot, defect.file);
  const text = mutated(readFileSync(path, 'utf8'), defect);
  return withChangedProgram((asked) => (asked === path ? text : undefined), act);
}
