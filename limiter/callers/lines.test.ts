import { expect, it } from 'vitest';
import { loggedText } from '../../test/support/logged-text.ts';
import * as lines from './lines.ts';

it('callers and who was refused are logged', () => {
  expect(
    loggedText((log) => {
      lines.callersLoaded(log, { path: '/etc/callers.yaml', callers: 2 }, false);
      lines.callersRefused(log, 'CALLERS_FILE: /etc/callers.yaml:3:5: domains: is missing');
      lines.callersLoaded(log, { path: '/etc/callers.yaml', callers: 3 }, true);
      const plain = { address: '0.0.0.0:8081', setting: 'GRPC_SERVER_USE_TLS' };
      lines.tokensInPlainText(log, { listener: 'gRPC', ...plain });
      lines.callerRefused(log, {
        ...{ caller: 'unknown', peer: '10.0.0.1:4711', counter: 'unauthenticated', times: 7 },
        reason: 'the token is not one of a caller',
      });
    }),
  ).toEqual([
    'level=info msg="Callers are in force" path=/etc/callers.yaml callers=2',
    'level=error msg="The callers file cannot be used: the last good one stays in force" reason="CALLERS_FILE: /etc/callers.yaml:3:5: domains: is missing"',
    'level=warning msg="Callers are in force" path=/etc/callers.yaml callers=3',
    'level=warning msg="Tokens of callers can be read on their way: the listener answers without TLS" listener=gRPC address="0.0.0.0:8081" setting=GRPC_SERVER_USE_TLS',
    'level=warning msg="A request was refused for who asks" caller=unknown peer="10.0.0.1:4711" counter=unauthenticated times=7 reason="the token is not one of a caller"',
  ]);
});
