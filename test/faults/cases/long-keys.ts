import { redisProgram } from '../../support/find-server.ts';
import { type FaultCase, slowestMs } from '../fault-case.ts';
import { keepsEverything, killAndRestart, redisInDanger } from './redis-killed.ts';

const nameOf = (characters: number): string => `keys-of-${characters}-characters`;

function longKeys(characters: number): FaultCase {
  return {
    name: nameOf(characters),
    what: `Redis is killed and started again while every key has over ${characters} characters`,
    needs: [redisProgram],
    keyPadding: 'x'.repeat(characters),
    bounds: { slowestMs, minErrors: 1, minOpened: 1 },
    prepare: redisInDanger(keepsEverything, killAndRestart),
  };
}

export const longKeyCases: readonly FaultCase[] = [
  { ...longKeys(250), guardedBy: nameOf(4000) },
  longKeys(4000),
];
