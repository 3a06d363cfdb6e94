import { expect, it } from 'vitest';
import { loggedText } from '../../test/support/logged-text.ts';
import { lines } from './lines.ts';

it('callers and rejected callers are logged', () => {
  expect(
    loggedText((log) => {
      lines.callersLoaded(log, { path: '/etc/callers.yaml', callers: 2 }, false);
      lines.callersRejected(log, { reason: 'CALLERS_FILE: /etc/callers.yaml:3:5: domains: is missing' });
      lines.callersLoaded(log, { path: '/etc/callers.yaml', callers: 3 }, true);
      const plain = { address: '0.0.0.0:8081', setting: 'GRPC_SERVER_USE_TLS' };
      lines.tokensInPlainText(log, { listener: 'gRPC', ...plain });
      lines.callerRejected(log, {
        ...{ caller: 'unknown', peer: '10.0.0.1:4711', counter: 'unauthenticated', times: 7 },
        reason: 'the token does not belong to a caller',
      });
    }),
  ).toEqual([
    'level=info msg="Callers are in force" path=/etc/callers.yaml callers=2',
    'level=error msg="The callers file cannot be used: the last valid one stays in force" reason="CALLERS_FILE: /etc/callers.yaml:3:5: domains: is missing"',
    'level=warning msg="Callers are in force" path=/etc/callers.yaml callers=3',
    'level=warning msg="Others on the network can read tokens of callers: the listener has no TLS" listener=gRPC address="0.0.0.0:8081" setting=GRPC_SERVER_USE_TLS',
    'level=warning msg="Rejected a request because of its caller" caller=unknown peer="10.0.0.1:4711" counter=unauthenticated times=7 reason="the token does not belong to a caller"',
  ]);
});
