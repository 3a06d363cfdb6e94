import type { Reporter, TestCase, TestModule } from 'vitest/node';
import type { SharesApiServers } from './api-servers/api-server-pool.ts';
import { costTable, type FileCost } from './cost-table.ts';
import type { Interrupted } from './hang-guard.ts';
import { type Hang, HangRecord, isEndOf } from './hang-record.ts';
import { countedBefore, type RunCounts, runAgainLater } from './second-run.ts';
import { mayFailOnce } from './second-tries.ts';

/**
 * In the gate, first what the run took. Ends a run with `N passed, N failed` (and `, N skipped` when there are any), alone on the last line; before it the seed
 * of what chance leads, and the tests that passed only when tried again. Of these only time is an excuse: for any other
 * reason they count as failed, and so does the run. A run with interrupted properties leaves these, the tests that could not run because
 * of them, and that line, to a second one (second-run.ts).
 */
export default class SummaryReporter implements Reporter {
  readonly #startedAt = new Map<TestModule, number>();
  readonly #costs: FileCost[] = [];
  readonly #hangs = new HangRecord();

  onTestModuleStart(module: TestModule): void {
    this.#startedAt.set(module, performance.now() / 1000);
  }

  onTestModuleEnd(module: TestModule): void {
    const endedAt = performance.now() / 1000;
    this.#costs.push({
      project: module.project.name,
      path: module.relativeModuleId,
      // Files that share a process report their starts late, and of how long they took rightly.
      startedAt: Math.min(
        this.#startedAt.get(module) ?? endedAt,
        endedAt - module.diagnostic().duration / 1000,
      ),
      endedAt,
      cpuSeconds: module.meta().cpuSeconds,
      apiServerCpuSeconds: module.meta().apiServerCpuSeconds,
    });
  }

  onTestRunEnd(modules: readonly TestModule[], unhandledErrors: readonly unknown[]): void {
    const hangs = this.#hangs.read();
    const unexpected = unhandledErrors.filter((error) => !isEndOf(error, hangs));
    const run: Outcome = {
      counts: { passed: 0, failed: unexpected.length, skipped: 0 },
      lines: [],
      left: [],
    };
    for (const module of modules) {
      if (module.errors().length > 0) run.counts.failed += 1;
      const ofModule = hangs.filter(({ file }) => file === module.relativeModuleId);
      for (const test of module.children.allTests()) addTest(run, test, ofModule);
      for (const suite of module.children.allSuites()) if (suite.errors().length > 0) run.counts.failed += 1;
    }
    this.#end(run);
  }

  /** Once the servers that suites share have ended. */
  #costLines(): string[] {
    if (process.env['CI'] !== 'true') return [];
    const { sharedApiServers: shared } = globalThis as SharesApiServers;
    return ['', ...costTable(this.#costs, shared && { shared }), ''];
  }

  #end({ counts, lines, left }: Outcome): void {
    const isLeft = runAgainLater(
      counts,
      left.map(({ test: { module, fullName } }) => ({ file: module.moduleId, name: fullName })),
    );
    if (!isLeft) counts.failed += left.length;
    const again = isLeft ? ', runs again' : '';
    for (const { test, why } of left) lines.push(`${why}${again}: ${nameOf(test)}`);
    const before = countedBefore();
    const seed = process.env['PROPERTY_SEED'];
    if (seed !== undefined) lines.push(`seed of the property tests: ${seed}`);
    const total = before === undefined ? counts : addTo(before, counts);
    if (!isLeft) lines.push(totalLine(total));
    process.on('exit', () => {
      for (const line of [...this.#costLines(), ...lines]) process.stdout.write(`${line}\n`);
      if (total.failed > 0) process.exitCode ||= 1;
    });
  }
}

/** Of a run without a second one. */
interface Outcome {
  counts: RunCounts;
  lines: string[];
  /** Which a second run tries again. */
  left: { test: TestCase; why: string }[];
}

function addTest({ counts, lines, left }: Outcome, test: TestCase, hangs: readonly Hang[]): void {
  const { state } = test.result();
  const isFlaky = test.diagnostic()?.flaky === true;
  if (isFlaky) lines.push(`passed only when tried again: ${nameOf(test)}${firstLineOf(test)}`);
  const hang = hangs.find((one) => one.test === test.fullName);
  if (hang?.hasFailed === true) {
    lines.push(`failed, and then interrupted: ${nameOf(test)}`);
    counts.failed += 1;
  } else if (hang !== undefined) {
    left.push({
      test,
      why: `interrupted, as a case took more than ${hang.limitSeconds} s of processor time`,
    });
  } else if (hangs.length > 0 && state === 'pending') {
    left.push({ test, why: 'not run, as its process was ended' });
  } else if (wasInterrupted(test)) left.push({ test, why: 'interrupted' });
  else if (isFlaky && !isExcused(test)) {
    lines.push(...(test.result().errors ?? []).map(({ stack, message }) => stack ?? message));
    counts.failed += 1;
  } else if (state === 'passed' || state === 'failed' || state === 'skipped') counts[state] += 1;
  else counts.failed += 1;
}

/** What a second run skips has run in the first. */
function addTo(before: RunCounts, { passed, failed }: RunCounts): RunCounts {
  return { passed: before.passed + passed, failed: before.failed + failed, skipped: before.skipped };
}

function totalLine({ passed, failed, skipped }: RunCounts): string {
  const ran = `${passed} passed, ${failed} failed`;
  return skipped > 0 ? `${ran}, ${skipped} skipped` : ran;
}

function nameOf(test: TestCase): string {
  return `${test.module.relativeModuleId} > ${test.fullName}`;
}

/** Why it failed first, where nothing else says so. */
function firstLineOf(test: TestCase): string {
  if (!isExcused(test)) return '';
  const [line = ''] = (test.result().errors?.[0]?.message ?? '').split('\n', 1);
  return line === '' ? '' : ` (${line.slice(0, 200)})`;
}

/** And nothing else was wrong with it. */
function wasInterrupted(test: TestCase): boolean {
  const { state, errors } = test.result();
  return state === 'failed' && errors.every((error) => (error as Interrupted).interrupted === true);
}

function isExcused(test: TestCase): boolean {
  const failures = test.result().errors ?? [];
  const { cases, outlastedMinute } = test.meta();
  const project = test.module.project.name;
  const seen = { project, file: test.module.moduleId, cases, outlastedMinute };
  return failures.length > 0 && failures.every((one) => mayFailOnce(seen, one));
}
