/** For mutants of the control plane: the simulation of the gate, in the thread that has the mutant. */
import { it } from 'vitest';
import { expectAllHeld } from '../simulation/all-held.ts';
import { runSimulation } from '../simulation/run-simulation.ts';

it('a control plane holds what it must, while things happen by chance', async () => {
  expectAllHeld(await runSimulation(9, 1_000));
});
