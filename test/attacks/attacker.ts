/** The attacker's process: one attack for so long, then what it got. Its end closes all of its connections. */
import { setTimeout as sleep } from 'node:timers/promises';

import { seededRandom } from '../../bench/zipf.ts';
import { allAttacks } from './all-attacks.ts';
import { type AttackTarget, Tally } from './attack.ts';

export interface AttackerOrder {
  name: string;
  ports: AttackTarget['ports'];
  seconds: number;
  /** Of 1. */
  scale: number;
  seed: number;
}

export interface AttackerReport {
  got: string;
  reached: string | undefined;
}

/** An attack that is not begun as a whole after its time goes on for so long. */
const begunPatienceMs = 30_000;

process.on('disconnect', () => process.exit());
const { name, ports, seconds, scale, seed } = JSON.parse(process.argv[2] as string) as AttackerOrder;
const attack = allAttacks.find((one) => one.name === name);
if (attack === undefined) throw new Error(`no attack is named ${name}`);
const got = new Tally();
const many = (count: number): number => Math.max(1, Math.round(count * scale));
let isOver = false;
const run = attack.run({ ports, got, many, random: seededRandom(seed) }).then(() => {
  isOver = true;
});
await Promise.race([run, sleep(seconds * 1000)]);
if (got.isPart) {
  // All of it has to be there for a moment.
  for (let waitedMs = 0; got.isPart && !isOver && waitedMs < begunPatienceMs; waitedMs += 50) await sleep(50);
  await sleep(500);
}
const report: AttackerReport = { got: String(got), reached: got.reached };
process.send?.(report, () => process.exit(0));
