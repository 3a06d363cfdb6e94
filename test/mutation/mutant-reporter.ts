/** Stryker's plugin that prints each mutant of the sample when it was tested, as the mutator of Lua does. */
import { relative } from 'node:path';
import type { MutantResult } from '@stryker-mutator/api/core';
import { declareClassPlugin, PluginKind } from '@stryker-mutator/api/plugin';
import type { MutationTestingPlanReadyEvent } from '@stryker-mutator/api/report';
import { lineOf, type MutantReport } from './score.ts';

/** Tests that cannot be loaded, or whose process ends, notice a mutant as well. */
const killed: readonly MutantResult['status'][] = ['Killed', 'Timeout', 'RuntimeError'];

/** Undefined for a mutant that is not in the sample. */
export function mutantReport(result: MutantResult): MutantReport | undefined {
  const { fileName, location, mutatorName, replacement = '', status } = result;
  if (status === 'CompileError') return undefined;
  const { line, column } = location.start;
  return {
    place: `${relative(process.cwd(), fileName)}:${line}:${column}`,
    change: `${mutatorName}: ${replacement}`,
    is: killed.includes(status) ? 'killed' : 'survived',
  };
}

class MutantReporter {
  #left = 0;

  onMutationTestingPlanReady({ mutantPlans }: MutationTestingPlanReadyEvent): void {
    this.#left = mutantPlans.length;
    // Stryker sends all mutants to the checker in one message. With the tests that cover each, it is more than V8 can write.
    for (const { mutant } of mutantPlans) mutant.coveredBy = [];
  }

  onMutantTested(result: MutantResult): void {
    this.#left--;
    const report = mutantReport(result);
    if (report === undefined) return;
    const { is } = report;
    const how = result.status === 'Killed' || is === 'survived' ? '' : ` (${result.status})`;
    console.log(`${this.#left} left, ${lineOf(report)}: ${is}${how}`);
  }
}

export const strykerPlugins = [declareClassPlugin(PluginKind.Reporter, 'mutants', MutantReporter)];
