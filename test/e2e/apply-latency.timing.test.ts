import { expect, it } from 'vitest';
import { applyTimes, at } from '../../bench/cluster.ts';
import { installPrerequisites } from '../support/cluster.ts';
import { describeWithApiServer } from '../support/describe-with-api-server.ts';
import { clientOf } from '../support/kubernetes-client.ts';
import { machineSlowness } from '../support/machine-slowness.ts';

/** Enough to see a change in kind. */
const rounds = 20;
/** `npm run bench:cluster` says what a quiet machine has. */
const wantedMs = 250;

describeWithApiServer('from an apply to the first decision under the new rule', (api) => {
  it(`takes less than ${wantedMs} ms in 19 of 20 cases`, async () => {
    installPrerequisites(api());
    const times = await applyTimes(api(), clientOf(api()), rounds);
    const [p50, p95] = [at(0.5, times), at(0.95, times)];
    console.log(`apply to decision: p50 ${p50.toFixed(0)} ms, p95 ${p95.toFixed(0)} ms of ${rounds}`);
    expect(p95).toBeLessThan(wantedMs * machineSlowness());
  }, 120_000);
});
