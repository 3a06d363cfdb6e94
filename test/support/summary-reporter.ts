import type { Reporter, TestModule } from 'vitest/node';

/**
 * Ends a run with `N passed, N failed` (and `, N skipped` when there are any), alone on the last line; before it the
 * tests that passed only when tried again, which are defects to be mended.
 */
export default class SummaryReporter implements Reporter {
  onTestRunEnd(modules: readonly TestModule[], unhandledErrors: readonly unknown[]): void {
    const triedAgain: string[] = [];
    const counts = { passed: 0, failed: unhandledErrors.length, skipped: 0 };
    for (const module of modules) {
      if (module.errors().length > 0) counts.failed += 1;
      for (const test of module.children.allTests()) {
        const { state } = test.result();
        if (test.diagnostic()?.flaky === true)
          triedAgain.push(`${module.relativeModuleId} > ${test.fullName}`);
        if (state === 'passed' || state === 'failed' || state === 'skipped') counts[state] += 1;
        else counts.failed += 1;
      }
      for (const suite of module.children.allSuites()) if (suite.errors().length > 0) counts.failed += 1;
    }
    const skipped = counts.skipped > 0 ? `, ${counts.skipped} skipped` : '';
    process.on('exit', () => {
      for (const name of triedAgain) process.stdout.write(`passed only when tried again: ${name}\n`);
      process.stdout.write(`${counts.passed} passed, ${counts.failed} failed${skipped}\n`);
    });
  }
}
