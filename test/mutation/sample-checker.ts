/**
 * Stryker's plugin that leaves all mutants out but a sample: Stryker has no option for it. What is left out counts as an
 * error of compilation, which no score contains.
 */
import { relative } from 'node:path';
import type { CheckResult } from '@stryker-mutator/api/check';
import { CheckStatus } from '@stryker-mutator/api/check';
import type { Mutant, StrykerOptions } from '@stryker-mutator/api/core';
import { commonTokens, declareClassPlugin, PluginKind } from '@stryker-mutator/api/plugin';
import { sampled } from './sample.ts';
import { lineOf } from './score.ts';

/** Under this name in Stryker's options. */
export interface SampleOptions {
  count: number;
  seed: number;
  /** If there are any, the sample is these mutants, as `lineOf` prints them. */
  lines?: readonly string[] | undefined;
}

class SampleChecker {
  static readonly inject: [typeof commonTokens.options] = [commonTokens.options];
  readonly #options: SampleOptions;

  constructor(options: StrykerOptions) {
    this.#options = options['sample'] as SampleOptions;
  }

  async init(): Promise<void> {}

  /** The sample, each mutant by itself and in the order of the sample, and the rest. */
  async group(mutants: Mutant[]): Promise<string[][]> {
    const { lines } = this.#options;
    const isNamed = (mutant: Mutant): boolean => lines?.includes(printed(mutant)) === true;
    const chosen =
      lines === undefined ? sampled(mutants, { ...this.#options, nameOf }) : mutants.filter(isNamed);
    const rest = new Set(mutants).difference(new Set(chosen));
    return [...chosen.map(({ id }) => [id]), [...rest].map(({ id }) => id)].filter(
      ({ length }) => length > 0,
    );
  }

  /** The rest is many at once, or a last one that may be tested as well. */
  async check(mutants: Mutant[]): Promise<Record<string, CheckResult>> {
    const result: CheckResult =
      mutants.length === 1
        ? { status: CheckStatus.Passed }
        : { status: CheckStatus.CompileError, reason: 'not in the sample' };
    return Object.fromEntries(mutants.map(({ id }) => [id, result]));
  }
}

/** As reports print it, which count lines and columns from 1. */
function printed({ fileName, mutatorName, replacement, location: { start } }: Mutant): string {
  const place = `${relative(process.cwd(), fileName)}:${start.line + 1}:${start.column + 1}`;
  return lineOf({ place, change: `${mutatorName}: ${replacement}` });
}

/** Without the absolute path, which differs between copies of the project. */
function nameOf({ fileName, mutatorName, replacement, location: { start, end } }: Mutant): string {
  const file = fileName.split('/').slice(-3).join('/');
  return [file, mutatorName, start.line, start.column, end.line, end.column, replacement].join(' ');
}

export const strykerPlugins = [declareClassPlugin(PluginKind.Checker, 'sample', SampleChecker)];
