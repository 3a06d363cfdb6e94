/**
 * The one program that runs in Redis: a section for each thing that a call may ask, of which a call runs those that it names. A
 * section makes only the functions that its call needs, so that a long text costs a call no more than a short one.
 */
import { type FoldedRun, neverOver } from '../folded-run.ts';
import { leaseArgument } from '../leases/ledger.ts';
import { answerLeased, luaBoundedCountSection, luaBoundedStopSection } from './bounded-scripts.ts';
import {
  answerSteps,
  BoundTable,
  HeldTexts,
  noteStepsOver,
  pushStepKeys,
  type Step,
  stepArgument,
} from './bounded-steps.ts';
import { keyError, replyNumber, UnexpectedReply } from './reply-checks.ts';
import { reservationKeysOf } from './reservation-keys.ts';
import { luaReservationSection } from './reservation-script.ts';
import {
  type Arguments,
  type KeyedCommands,
  luaBase,
  luaCountSection,
  luaStopSection,
  redisScript,
  runScript,
} from './scripts.ts';

/** How a call names a section. */
export type Section = 'count' | 'bounded' | 'stop' | 'bounded-stop' | 'reservations';

const sections: { readonly [name in Section]: string } = {
  count: luaCountSection,
  bounded: luaBoundedCountSection,
  stop: luaStopSection,
  'bounded-stop': luaBoundedStopSection,
  reservations: luaReservationSection,
};

const branches = Object.entries(sections)
  .filter(([name]) => name !== 'count')
  .map(([name, lua]) => `if name == '${name}' then\n${lua}\n`);

/** How a call says that it has several sections. */
export const severalSections = 'several';

/** Hands over what a call of one section ends with: nothing for what most calls do. */
export function pushSection(args: Arguments, section: Section): void {
  if (section !== 'count') args.push(section);
}

/**
 * The last of ARGV names the section; where it names none the call counts plain windows. A call of several names each, with how many
 * keys and arguments it has, in the argument before, and is answered with a list of their answers. A section knows `KEYS`, `ARGV` and `argc` as its own, and writes `answer`.
 */
export const program = redisScript(`${luaBase}
local KEYS, ARGV, argc = KEYS, ARGV, #ARGV - 1
local name, answer = ARGV[argc + 1], nil
local nextSection, answers, allKeys, allArguments, firstKey, firstArgument
if name == '${severalSections}' then
  -- Redis before 5.0 writes nothing after TIME otherwise, which a section before another one may ask for.
  if redis.replicate_commands then redis.replicate_commands() end
  nextSection, answers, allKeys, allArguments = string.gmatch(ARGV[argc], '(%S+) (%d+) (%d+)'), {}, KEYS, ARGV
  firstKey, firstArgument = 0, 0
end
repeat
  if nextSection then
    local keys, count
    name, keys, count = nextSection()
    if not name then break end
    KEYS, ARGV, argc = {}, {}, tonumber(count)
    for i = 1, tonumber(keys) do KEYS[i] = allKeys[firstKey + i] end
    for i = 1, argc do ARGV[i] = allArguments[firstArgument + i] end
    firstKey, firstArgument = firstKey + #KEYS, firstArgument + argc
  end
  ${branches.join('else')}
  else
    ${sections.count}
  end
  if answers then answers[#answers + 1] = answer end
until not nextSection
return answers or answer
`);

/** Runs one section for one key. Rejects with what `send` rejected with. */
export function runSection(
  commands: KeyedCommands,
  section: Section,
  { keys, args }: { keys: readonly string[]; args: readonly string[] },
): Promise<unknown> {
  const all = [String(keys.length), ...keys, ...args];
  pushSection(all, section);
  return runScript(commands, { key: keys[0]!, script: program, args: all });
}

/** Applies and answers one run by a script of its one key, atomically. Rejects with what `send` rejected with. */
export async function applyByScript(commands: KeyedCommands, run: FoldedRun): Promise<void> {
  const { key, shift, low, high, ttlSeconds } = run;
  // What is reserved has another name in a cluster.
  const args = [0, shift, low, high, ttlSeconds, neverOver].map(String);
  const reply = await runSection(commands, 'count', { keys: [key], args });
  if (!Array.isArray(reply) || reply.length !== 1) throw new UnexpectedReply('EVALSHA', reply);
  const [first] = reply as unknown[];
  const before = replyNumber(first);
  if (before === undefined) throw keyError(first);
  run.answer(before);
}

/** Counts and answers steps whose keys have one slot, atomically. Rejects with what `send` rejected with. */
export async function admitByScript(commands: KeyedCommands, steps: readonly Step[]): Promise<void> {
  const bounds = new BoundTable();
  const groups = stepArgument(steps, bounds);
  const keys: string[] = [];
  pushStepKeys(keys, steps);
  const args = ['0', '0', bounds.toArgument(), groups, '-'];
  const reply = await runSection(commands, 'bounded', { keys, args });
  const texts = HeldTexts.of(reply, 0, (refusal) => commands.translate(refusal));
  if (texts === undefined) throw new UnexpectedReply('EVALSHA', reply);
  answerSteps(steps, texts);
  if (!texts.isRead) throw new UnexpectedReply('EVALSHA', reply);
  noteStepsOver(steps, texts.over, 0);
}

/** Counts and answers a run with a lease in a cluster, atomically. Rejects with what `send` rejected with. */
export async function leaseByScript(commands: KeyedCommands, run: FoldedRun): Promise<void> {
  const { key } = run;
  const [reserved] = reservationKeysOf(key);
  // What is reserved is asked for by itself.
  run.most = neverOver;
  const args = ['0', '0', '', '', leaseArgument([run]), reserved];
  const reply = await runSection(commands, 'bounded', { keys: [key, run.lease!.ledgerKey], args });
  const translate = (refusal: unknown) => commands.translate(refusal);
  // Behind the three numbers, of groups: nothing.
  if (HeldTexts.of(reply, 3, translate)?.isRead !== true) throw new UnexpectedReply('EVALSHA', reply);
  answerLeased(run, reply as readonly unknown[], 0, translate);
}
