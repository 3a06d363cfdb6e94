/** The attacker's process: one attack for so long, then what it got. Its end closes all of its connections. */
import { setTimeout as sleep } from 'node:timers/promises';

import { allAttacks } from './all-attacks.ts';
import { type AttackTarget, Tally } from './attack.ts';

export interface AttackerOrder {
  name: string;
  ports: AttackTarget['ports'];
  seconds: number;
  /** Of 1. */
  scale: number;
}

export interface AttackerReport {
  got: string;
  reached: string | undefined;
}

process.on('disconnect', () => process.exit());
const { name, ports, seconds, scale } = JSON.parse(process.argv[2] as string) as AttackerOrder;
const attack = allAttacks.find((one) => one.name === name);
if (attack === undefined) throw new Error(`no attack is named ${name}`);
const got = new Tally();
const many = (count: number): number => Math.max(1, Math.round(count * scale));
await Promise.race([attack.run({ ports, got, many }), sleep(seconds * 1000)]);
const report: AttackerReport = { got: String(got), reached: got.reached };
process.send?.(report, () => process.exit(0));
