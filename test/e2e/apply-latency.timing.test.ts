import { expect, it } from 'vitest';
import { applyTimes, at } from '../../bench/cluster.ts';
import { installPrerequisites } from '../support/cluster.ts';
import { describeWithApiServer } from '../support/describe-with-api-server.ts';
import { clientOf } from '../support/kubernetes-client.ts';
import { machineSlowness } from '../support/machine-slowness.ts';

const rounds = 120;
/** `npm run bench:cluster` says what a quiet machine has. */
const wantedMs = 250;

describeWithApiServer('from an apply to the first decision under the new rule', (api) => {
  it(`takes less than ${wantedMs} ms in 99 of 100 cases`, async () => {
    installPrerequisites(api());
    const times = await applyTimes(api(), clientOf(api()), rounds);
    const [p50, p99] = [at(0.5, times), at(0.99, times)];
    console.log(`apply to decision: p50 ${p50.toFixed(0)} ms, p99 ${p99.toFixed(0)} ms of ${rounds}`);
    expect(p99).toBeLessThan(wantedMs * machineSlowness());
  }, 120_000);
});
