import fc from 'fast-check';
import { expect, it } from 'vitest';
import { describeWithServer } from '../support/describe-with-server.ts';
import { helmProgram } from '../support/find-server.ts';
import { objectsIn, tryChart, type Values } from '../support/helm-chart.ts';
import { caseCount } from '../support/property-cases.ts';
import { programFaults } from './program-faults.ts';
import { valueCases } from './value-cases.ts';

/** As Helm joins several files of values: the later one replaces everything but objects. */
function joined(first: Values, second: Values): Values {
  const isObject = (value: unknown): value is Values =>
    typeof value === 'object' && value !== null && !Array.isArray(value);
  const parts = Object.entries(second).map(([name, value]) => {
    const before = first[name];
    return [name, isObject(before) && isObject(value) ? joined(before, value) : value] as const;
  });
  return { ...first, ...Object.fromEntries(parts) };
}

/** A sentence of the chart's own checks, or of its schema. */
const rejection =
  /^Error: (execution error at \(weir\/templates\/checks\.yaml:\d+:\d+\): |values don't meet the specifications of the schema)/;

describeWithServer('values that are joined from several files', helmProgram, () => {
  it('are rejected in words, or the programs accept them', { timeout: 120_000 }, () => {
    const some = fc.uniqueArray(fc.nat(valueCases.length - 1), { minLength: 2, maxLength: 3 });
    fc.assert(
      fc.property(some, (chosen) => {
        const cases = chosen.map((i) => valueCases[i]!);
        const values = cases.reduce<Values>((before, each) => joined(before, each.values), {});
        const { status, stdout, stderr } = tryChart(values);
        if (status !== 0) expect(stderr).toMatch(rejection);
        else expect(programFaults(objectsIn(stdout)), cases.map(({ name }) => name).join(' + ')).toEqual([]);
      }),
      { numRuns: caseCount(40) },
    );
  });
});
