/** What a run of the simulation with 1,000 changes and faults must report where nothing is wrong with the control plane. */
import { expect } from 'vitest';
import { missingEvents, type SimulationReport } from './run-simulation.ts';

export function expectAllHeld(report: SimulationReport): void {
  expect(report).toMatchObject({ violations: [], steps: expect.any(Number) });
  expect(missingEvents(report, 1_000)).toEqual([]);
}
