import { expect, it } from 'vitest';
import { describeWithServer } from './describe-with-server.ts';
import { helmProgram } from './find-server.ts';
import { type ChartRun, chartFolder, runHelm, spawnHelm } from './helm-chart.ts';

const redis = ['--set', 'redis.url=redis:6379,crds.enabled=false'];
const install = ['install', 'weir', chartFolder, '--dry-run=client'];

/** One after the other, so that each would notice what the ones before left behind: a namespace, a level of logs, an error. */
const commands: Readonly<Record<string, readonly string[]>> = {
  'renders into a namespace': ['template', 'weir', chartFolder, '--namespace', 'other', ...redis],
  'logs all there is': ['template', 'weir', chartFolder, '--debug', ...redis],
  'renders into no namespace': ['template', 'weir', chartFolder, ...redis],
  'is refused by the schema': ['template', 'weir', chartFolder, ...redis, '--set', 'limiter.foo=1'],
  'is refused by a check of the chart': ['template', 'weir', chartFolder],
  'is no command of Helm': ['template', '--nonsense'],
  'prints notes': [...install, ...redis],
  'prints notes of other values': [
    ...install,
    '--namespace',
    'third',
    ...redis,
    '--set',
    'limiter.grpcTls.existingSecret=a',
  ],
  'checks a chart': ['lint', '--strict', chartFolder],
  'shows a chart': ['show', 'chart', chartFolder],
};

/** Of a release: the second in which it ran. */
function timeless({ status, stdout, stderr }: ChartRun): ChartRun {
  return { status, stdout: stdout.replace(/^LAST DEPLOYED: .*$/m, ''), stderr };
}

describeWithServer('Helm in one process for many commands', helmProgram, () => {
  it.each(Object.entries(commands))('answers as Helm does if it %s', (_, args) => {
    const expected = spawnHelm(args, { HOME: '/nonexistent', KUBECONFIG: '' });
    expect(expected.stdout + expected.stderr).not.toBe('');
    expect(timeless(runHelm(args))).toEqual(timeless(expected));
  });
});
