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
