import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { promisify } from 'node:util';
import { expect, it, onTestFinished } from 'vitest';
import { statusCommand } from '../../cli/operate/status-command.ts';
import { applyFleet, installPrerequisites } from '../support/cluster.ts';
import { describeWithApiServer } from '../support/describe-with-api-server.ts';
import { startKubelet } from '../support/kubelet.ts';
import { runCommand } from '../support/run-command.ts';
import { weirProgram } from '../support/weir-program.ts';

describeWithApiServer('weir status in a cluster', (api) => {
  const status = (...args: string[]) =>
    runCommand(statusCommand, ['--kubeconfig', api().kubeconfig(), ...args]);

  it('asks the pods of the fleet through the API server', async () => {
    installPrerequisites(api());
    applyFleet(api(), { service: { namespace: 'weir-system', name: 'limiter' } });
    const server = createServer((_, response) => {
      const limiter = { name: 'lim-0', instance: 'a' };
      response
        .setHeader('Content-Type', 'application/json')
        .end(JSON.stringify({ limiter, pad: 'x'.repeat(100_000) }));
    }).listen(0, '127.0.0.1');
    onTestFinished(() => void server.close());
    await once(server, 'listening');
    const { port } = server.address() as AddressInfo;
    await startKubelet(api(), 'node-0', (pod, wanted) =>
      pod === 'weir-system/lim-0' && wanted === 6071 ? port : 1,
    );
    const service = { selector: { app: 'limiter' }, ports: [{ port: 8081 }] };
    const metadata = { name: 'limiter', namespace: 'weir-system' };
    apply({ apiVersion: 'v1', kind: 'Service', metadata, spec: service });
    for (const [name, phase] of [
      ['lim-0', 'Running'],
      ['lim-1', 'Pending'],
      ['old', 'Succeeded'],
    ] as const) {
      const labels = { app: 'limiter' };
      const containers = [
        { name: 'limiter', image: 'weir', ports: [{ name: 'debug', containerPort: 6071 }] },
      ];
      apply({
        apiVersion: 'v1',
        kind: 'Pod',
        metadata: { ...metadata, name, labels },
        spec: { nodeName: 'node-0', containers },
      });
      const patch = JSON.stringify({ status: { phase } });
      api().mustKubectl([
        'patch',
        'pod',
        name,
        '-n',
        'weir-system',
        '--subresource=status',
        '--type=merge',
        '-p',
        patch,
      ]);
    }
    const { status: code, stdout, stderr } = await status('-o', 'json', '--timeout', '60s');
    expect([code, stderr]).toEqual([1, '']);
    expect(JSON.parse(stdout)).toMatchObject({
      totals: { limiters: 2, answered: 1 },
      limiters: [
        { address: 'lim-0', answered: true, limiter: { name: 'lim-0' } },
        { address: 'lim-1', answered: false, problems: ['the pod is Pending'] },
      ],
    });
    // As a program it ends, too, once its connections are closed.
    const args = [weirProgram, 'status', '--kubeconfig', api().kubeconfig(), '--timeout', '60s'];
    const ended = await promisify(execFile)(process.execPath, args, { timeout: 60_000 }).catch(
      (error) => error,
    );
    expect([ended.code, ended.stdout]).toEqual([1, expect.stringMatching(/\nlim-0 +lim-0 +ok /)]);
    expect((await status('-n', 'default')).stderr).toContain(
      'no pods with the labels app.kubernetes.io/component=limiter in namespace default',
    );
  });

  function apply(object: unknown): void {
    api().apply(JSON.stringify(object));
  }
});
