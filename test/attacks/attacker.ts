/** The attacker's process: does one attack after the other, and says what it got. After each it closes its connections. */
import { setTimeout as sleep } from 'node:timers/promises';

import { seededRandom } from '../../bench/zipf.ts';
import { allAttacks } from './all-attacks.ts';
import { type AttackPorts, Tally } from './attack.ts';

export interface AttackerOrder {
  name: string;
  ports: AttackPorts;
  seconds: number;
  /** Of 1. */
  scale: number;
  seed: number;
  /** An attack that is not begun as a whole after its time, or has not met its defense, goes on for so long. */
  patienceMs: number;
}

export interface AttackerReport {
  got: string;
  reached: string | undefined;
  /** Why the attack did not take place as a whole; undefined when it did. */
  missed: string | undefined;
}

/** All of an attack that took longer than its time to begin has to be there for a moment. */
const momentMs = 500;

async function attackBy({
  name,
  ports,
  seconds,
  scale,
  seed,
  patienceMs,
}: AttackerOrder): Promise<AttackerReport> {
  const attack = allAttacks.find((one) => one.name === name);
  if (attack === undefined) throw new Error(`no attack is named ${name}`);
  const got = new Tally();
  const many = (count: number): number => Math.max(1, Math.round(count * scale));
  let isOver = false;
  const run = attack.run({ ports, got, many, random: seededRandom(seed) }).finally(() => {
    isOver = true;
  });
  await Promise.race([run, sleep(seconds * 1000)]);
  const isAwaited = (): boolean =>
    !isOver && (got.isPart || got.reached !== undefined || !got.has(attack.meets));
  if (isAwaited()) {
    for (let waitedMs = 0; isAwaited() && waitedMs < patienceMs; waitedMs += 10) await sleep(10);
    await sleep(Math.min(momentMs, seconds * 1000));
  }
  const missed = got.isPart
    ? `the attack had begun in part only: ${got}`
    : got.has(attack.meets)
      ? undefined
      : `the attack met nothing like ${attack.meets.source}, but ${got}`;
  const report = { got: String(got), reached: got.reached, missed };
  run.catch(() => {});
  got.end();
  return report;
}

process.on('disconnect', () => process.exit());
process.on(
  'message',
  (order: AttackerOrder) => void attackBy(order).then((report) => process.send?.(report)),
);
