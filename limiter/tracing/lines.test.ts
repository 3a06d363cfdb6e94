import { expect, it } from 'vitest';
import { loggedText } from '../../test/support/logged-text.ts';
import { lines } from './lines.ts';

it('a collector of traces that comes and goes is reported', () => {
  expect(
    loggedText((log) => {
      const url = 'http://c/v1/traces';
      lines.tracesNotSent(log, { url, reason: 'connect ECONNREFUSED' });
      lines.tracesSentAgain(log, { url });
      lines.tracingProblem(log, { problem: 'OTEL_BSP_MAX_QUEUE_SIZE is no number', times: 2 });
      lines.lastTracesLost(log, { url, reason: 'not sent within 3 s' });
    }),
  ).toEqual([
    'level=warning msg="Cannot export traces: the limiter drops spans until it can" url="http://c/v1/traces" reason="connect ECONNREFUSED"',
    'level=warning msg="Exporting traces again" url="http://c/v1/traces"',
    'level=warning msg="OpenTelemetry warns" problem="OTEL_BSP_MAX_QUEUE_SIZE is no number" times=2',
    'level=warning msg="The last spans could not be exported" url="http://c/v1/traces" reason="not sent within 3 s"',
  ]);
});
