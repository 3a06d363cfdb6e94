/**
 * Checks of what Redis replies. A server that is broken, or is no Redis, must not decide about a request: a reply of another
 * type, length or range than its command gives becomes an error of the store, and STORE_FAILURE_MODE decides.
 */
import { beyondTotal, maxTotal } from '../../folded-run.ts';
import { ReplyError } from './resp.ts';

/** A reply that the command never gives. Its text names the command and the form of the reply, and repeats no text of it. */
export class UnexpectedReply extends Error {
  override readonly name = 'UnexpectedReply';

  constructor(command: string, reply: unknown) {
    super(`Redis gave an answer of an unexpected form to ${command}: ${formOf(reply)}`);
  }
}

/** Type and length. Numbers are shown, texts are not: they may hold keys of callers. */
function formOf(reply: unknown): string {
  if (typeof reply === 'number') return `the number ${reply}`;
  if (typeof reply === 'string') return `a status of ${reply.length} characters`;
  if (reply instanceof Buffer) return `a text of ${reply.length} bytes`;
  if (reply instanceof ReplyError) return 'an error in place of a value';
  if (Array.isArray(reply))
    return reply.length === 1 ? `a list of ${formOf(reply[0])}` : `a list of ${reply.length} values`;
  return reply === null ? 'nothing' : 'more than a value may hold';
}

/**
 * Reads a total of a script's reply; undefined for what is none, such as the error of one key. Beyond 2^52 the scripts write it
 * as text. Hits that others took back may leave less than 0.
 */
export function replyNumber(reply: unknown): number | undefined {
  if (typeof reply === 'number') return reply >= -beyondTotal && reply <= beyondTotal ? reply : undefined;
  return reply instanceof Buffer ? numberOfText(reply) : undefined;
}

function numberOfText(reply: Buffer): number | undefined {
  if (reply.length > 17) return undefined;
  const text = reply.toString('latin1');
  if (!/^-?\d{1,16}$/.test(text)) return undefined;
  const number = Number(text);
  return number >= -beyondTotal && number <= beyondTotal ? number : undefined;
}

/** Why a place of a script's reply holds no value: Redis's error for that key, or a reply that the script never gives. */
export function keyError(reply: unknown): Error {
  return reply instanceof ReplyError ? reply : new UnexpectedReply('EVALSHA', reply);
}

/** Whether it is an amount or a number of things: 0 to 2^53 - 1. */
export function isCount(reply: unknown): reply is number {
  return typeof reply === 'number' && reply >= 0 && reply <= maxTotal;
}

/** Chosen: Redis is younger than this time, 2000-01-01, and no script reports numbers beyond 2^52 microseconds, the year 2112. */
const earliestMicros = 946_684_800_000_000;
const latestMicros = 2 ** 52;

/** Whether it is a time by Redis's TIME, in microseconds since the epoch. */
export function isTimeMicros(reply: unknown): reply is number {
  return typeof reply === 'number' && reply >= earliestMicros && reply <= latestMicros;
}

/** The reply to a command that gives an integer: a total of up to 2^63, whose last digits are lost, unless bounds are given. */
export function integerReply(command: string, reply: unknown, least = -beyondTotal, most = 1e19): number {
  if (typeof reply === 'number' && reply >= least && reply <= most) return reply;
  throw new UnexpectedReply(command, reply);
}

/** The reply to a command that gives a text, or null for what is not there. */
export function textReply(command: string, reply: unknown): string | undefined {
  if (reply === null) return undefined;
  if (reply instanceof Buffer) return reply.toString();
  throw new UnexpectedReply(command, reply);
}

/** The reply to SET with NX: whether it set the key. */
export function hasSet(reply: unknown): boolean {
  if (reply === 'OK') return true;
  if (reply === null) return false;
  throw new UnexpectedReply('SET', reply);
}

/** The reply to a command that gives a list of texts, of so many at a time. */
export function textsReply(command: string, reply: unknown, multipleOf = 1): string[] {
  if (!Array.isArray(reply) || reply.length % multipleOf !== 0) throw new UnexpectedReply(command, reply);
  return reply.map((one: unknown) => {
    if (one instanceof Buffer) return one.toString();
    throw new UnexpectedReply(command, [one]);
  });
}
