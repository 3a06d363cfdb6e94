import type { FoldedRun } from '../folded-run.ts';
import { replyNumber } from './batch.ts';
import { countScript } from './count-script.ts';
import type { KeyedCommands } from './keyed-commands.ts';
import { isNoScript } from './redis-error.ts';

/** Applies and answers one run by a script of its one key, atomically. Rejects with what `send` rejected with. */
export async function applyByScript(commands: KeyedCommands, run: FoldedRun): Promise<void> {
  const { key } = run;
  const args = ['1', key, '0', run.shift, run.low, run.high, run.ttlSeconds].map(String);
  const reply = await commands.send(key, 'evalsha', [countScript.sha1, ...args]).catch((error: unknown) => {
    // Redis ran nothing when it does not know the script.
    if (!isNoScript(error)) throw error;
    return commands.send(key, 'eval', [countScript.source, ...args]);
  });
  const first = Array.isArray(reply) ? (reply[0] as unknown) : reply;
  const before = replyNumber(first);
  if (before === undefined) throw first;
  run.answer(before);
}
