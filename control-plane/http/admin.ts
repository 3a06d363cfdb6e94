/** `/v1` of the control plane, and its access rules. It only shows data: changes are made with objects. */
import { hostname } from 'node:os';
import { ApiGuard, type ApiRejection } from '../../process/http/api-guard.ts';
import type { ApiRoute } from '../../process/http/api-route.ts';
import { ApiRouter } from '../../process/http/api-router.ts';
import { LogThrottle } from '../../process/log/log-throttle.ts';
import { type FollowedToken, followTokenFile } from '../../process/net/token-file.ts';
import type { Clock, Timers } from '../../process/time/clock.ts';
import type { Telemetry } from '../telemetry/control-plane-metrics.ts';
import { lines } from '../telemetry/log-lines.ts';

interface AdminContext extends Telemetry {
  settings: { readonly debugTokenFile: string; readonly debugAllowedHosts: readonly string[] };
  clock: Clock;
  timers: Timers;
}

const rejectionReportIntervalMs = 1_000;
/** Chosen: no path accepts a body. */
const maxBodyBytes = { bytes: 1024, setting: 'no request may be longer' };

export function openAdmin(
  { settings, clock, log, metrics }: AdminContext,
  parts: { token(): string | undefined; routes: readonly ApiRoute[]; onFault(error: unknown): void },
): ApiRouter {
  const throttle = new LogThrottle<ApiRejection>(
    clock,
    ({ address, reason, detail }, times) =>
      lines.adminRejected(log, { from: address, counter: reason, reason: detail, times }),
    rejectionReportIntervalMs,
  );
  const guard = new ApiGuard({
    token: parts.token,
    hosts: { machine: hostname(), allowed: settings.debugAllowedHosts, setting: 'DEBUG_ALLOWED_HOSTS' },
    noChanges: 'the control plane accepts no changes by this API: change the objects in Kubernetes',
    clock,
    onRejected: (rejected) => {
      metrics.all.apiRejected.inc({ reason: rejected.reason });
      throttle.note(rejected, rejected.reason);
    },
  });
  return new ApiRouter({ guard, routes: parts.routes, maxBodyBytes, onFault: parts.onFault });
}

/** Reads DEBUG_TOKEN_FILE, and again when it changes. */
export function followDebugToken({ settings, timers, log }: AdminContext): FollowedToken {
  return followTokenFile({
    path: settings.debugTokenFile,
    setting: 'DEBUG_TOKEN_FILE',
    timers,
    rotated: () => lines.debugTokenRotated(log),
    rejected: (reason) => lines.debugTokenRejected(log, { reason }),
  });
}
