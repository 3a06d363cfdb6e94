/** What a run of the simulation must report where nothing is wrong with the control plane. */
import { expect } from 'vitest';
import type { SimulationReport } from './run-simulation.ts';

export function expectAllHeld(report: SimulationReport): void {
  expect(report).toMatchObject({ violations: [], steps: expect.any(Number) });
  // A run without anything to judge would have no violation either.
  expect(report.looks.strict).toBeGreaterThan(300);
  expect(report.looks.settled).toBeGreaterThan(4);
  expect(report.looks.ready).toBeGreaterThan(2_000);
  expect(report.elections).toBeGreaterThan(2);
}
