/** The admin API of the debug listener: its access rules, and the reports of every change made with it. */
import type { IncomingMessage } from 'node:http';
import { hostname } from 'node:os';
import { GrpcCode, Right } from '../../../process/grpc/handlers.ts';
import { ApiGuard } from '../../../process/http/api-guard.ts';
import type { ApiRoute, OperatorChange, ReportChange } from '../../../process/http/api-route.ts';
import { ApiRouter } from '../../../process/http/api-router.ts';
import { plainText } from '../../../process/log/error-text.ts';
import { throttledLine } from '../../../process/log/log-throttle.ts';
import { isLoopback } from '../../../process/net/bind.ts';
import { peerName, SocketPeer } from '../../../process/net/peer.ts';
import type { OperatorGate } from '../../capabilities/parts.ts';
import { lines } from '../../log/lines.ts';
import { createAdminStats } from '../../stats/registry/operator-stats.ts';
import type { LimiterContext } from '../context.ts';

export interface AdminParts {
  /** Returns the current debug token. */
  token(): string | undefined;
  /** Undefined without CALLERS_FILE. */
  gate: OperatorGate | undefined;
  routes(report: ReportChange): readonly ApiRoute[];
}

export function openAdmin(context: LimiterContext, { token, gate, routes }: AdminParts): ApiRouter {
  const { settings, clock, log } = context;
  const stats = createAdminStats(context.registry);
  const rejected = throttledLine(context, lines.adminRejected);
  const { debugHost: host } = settings;
  const guard = new ApiGuard({
    token,
    caller: gate && ((request, authorization) => callerOf(gate, request, authorization)),
    hosts: { machine: hostname(), allowed: settings.debugAllowedHosts, setting: 'DEBUG_ALLOWED_HOSTS' },
    noChanges: isLoopback(host)
      ? undefined
      : `this limiter accepts no changes, because DEBUG_HOST (${host}) is not loopback and callers need no token: set DEBUG_TOKEN_FILE, or CALLERS_FILE with the right admin`,
    clock,
    onRejected: ({ reason: counter, address: peer, detail: reason }) => {
      stats.rejected(counter);
      rejected({ peer, counter, reason }, counter);
    },
  });
  const report: ReportChange = (change) => {
    stats.changed(change.what);
    lines.adminChange(log, changeFields(change));
  };
  return new ApiRouter({
    guard,
    routes: routes(report),
    maxBodyBytes: { bytes: settings.httpMaxBodyBytes, setting: 'HTTP_MAX_BODY_BYTES' },
    onFault: (error) => lines.callFault(log, { call: 'debug', error }),
  });
}

function callerOf(
  gate: OperatorGate,
  request: IncomingMessage,
  authorization: string,
): ReturnType<NonNullable<ConstructorParameters<typeof ApiGuard>[0]['caller']>> {
  const peer = new SocketPeer(request.socket, peerName(request.socket) ?? 'unknown');
  const found = gate.admit({ peer, callerMemo: undefined }, authorization);
  if (found.rejected !== undefined) {
    const { code, message: detail } = found.rejected;
    return { rejected: code === GrpcCode.RESOURCE_EXHAUSTED ? 429 : 401, detail };
  }
  const bits = { read: Right.READ, admin: Right.ADMIN };
  return {
    name: found.name,
    hasRight: (right) => (found.rights & bits[right]) !== 0,
    hasDomain: (domain) => found.hasDomain(domain),
  };
}

/** Chosen: the maximum length of a value's text, such as a list of counters. */
const longestText = 1_000;

function changeFields({
  actor,
  what,
  domain,
  target,
  before,
  after,
}: OperatorChange): Parameters<typeof lines.adminChange>[1] {
  const text = (value: string): string => plainText(value, longestText);
  return {
    what,
    caller: actor.name,
    peer: actor.address,
    ...(actor.claims === '' ? {} : { unverifiedName: text(actor.claims) }),
    domain: text(domain),
    target: text(target),
    before: text(before),
    after: text(after),
  };
}
