/**
 * Deliberate defects where parts of the control plane and the command line are joined: who calls whom, with which
 * arguments, what is repeated, and how long something waits. A mutant moves with its code: when its text is rewritten,
 * state the defect anew for the code that obeys the same sentence of the documents.
 */
import { commandLineMutants } from './command-line-mutants.ts';
import { followingMutants } from './following-mutants.ts';
import type { Mutant } from './mutant-source.ts';
import { writingMutants } from './writing-mutants.ts';

export const mutants: readonly Mutant[] = [...writingMutants, ...followingMutants, ...commandLineMutants];
