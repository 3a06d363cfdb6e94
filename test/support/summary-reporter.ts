import type { Reporter, TestCase, TestModule } from 'vitest/node';
import { costTable, type FileCost } from './cost-table.ts';
import { mayFailOnce } from './second-tries.ts';

/**
 * In the gate, first what the run took. Ends a run with `N passed, N failed` (and `, N skipped` when there are any), alone on the last line; before it the seed
 * of what chance leads, and the tests that passed only when tried again. Of these only time is an excuse: for any other
 * reason they count as failed, and so does the run.
 */
export default class SummaryReporter implements Reporter {
  readonly #startedAt = new Map<TestModule, number>();
  readonly #costs: FileCost[] = [];

  onTestModuleStart(module: TestModule): void {
    this.#startedAt.set(module, performance.now() / 1000);
  }

  onTestModuleEnd(module: TestModule): void {
    const endedAt = performance.now() / 1000;
    this.#costs.push({
      project: module.project.name,
      path: module.relativeModuleId,
      // Files that share a process tell of their starts late, and of how long they took rightly.
      startedAt: Math.min(
        this.#startedAt.get(module) ?? endedAt,
        endedAt - module.diagnostic().duration / 1000,
      ),
      endedAt,
      cpuSeconds: module.meta().cpuSeconds,
    });
  }

  onTestRunEnd(modules: readonly TestModule[], unhandledErrors: readonly unknown[]): void {
    const lines: string[] = process.env['CI'] === 'true' ? ['', ...costTable(this.#costs), ''] : [];
    const counts = { passed: 0, failed: unhandledErrors.length, skipped: 0 };
    for (const module of modules) {
      if (module.errors().length > 0) counts.failed += 1;
      for (const test of module.children.allTests()) {
        const { state } = test.result();
        const name = `${module.relativeModuleId} > ${test.fullName}`;
        const isFlaky = test.diagnostic()?.flaky === true;
        if (isFlaky) lines.push(`passed only when tried again: ${name}`);
        if (isFlaky && !isExcused(test)) {
          lines.push(...(test.result().errors ?? []).map(({ stack, message }) => stack ?? message));
          counts.failed += 1;
        } else if (state === 'passed' || state === 'failed' || state === 'skipped') counts[state] += 1;
        else counts.failed += 1;
      }
      for (const suite of module.children.allSuites()) if (suite.errors().length > 0) counts.failed += 1;
    }
    const seed = process.env['PROPERTY_SEED'];
    if (seed !== undefined) lines.push(`seed of the property tests: ${seed}`);
    const skipped = counts.skipped > 0 ? `, ${counts.skipped} skipped` : '';
    process.on('exit', () => {
      for (const line of lines) process.stdout.write(`${line}\n`);
      process.stdout.write(`${counts.passed} passed, ${counts.failed} failed${skipped}\n`);
      if (counts.failed > 0) process.exitCode ||= 1;
    });
  }
}

function isExcused(test: TestCase): boolean {
  const failures = test.result().errors ?? [];
  const { cases } = test.meta();
  return (
    failures.length > 0 && failures.every((one) => mayFailOnce({ file: test.module.moduleId, cases }, one))
  );
}
