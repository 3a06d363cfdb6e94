/**
 * The report of scripts that count about keys that are over their limits: whether anything is reserved on them. A hit is then rejected
 * by one call. Only expired reservations are worth another call, which gives them back (reservation-script.ts).
 */
import type { Operation } from '../../operation.ts';

/** The reservations on a key that is over, as the scripts report them. */
export const ReservationsOnKey = { open: 1, expired: 2 } as const;
export type ReservationsOnKey = (typeof ReservationsOnKey)[keyof typeof ReservationsOnKey];

/**
 * This key exists as long as anything is reserved in the whole server. Most servers have no reservations, and one question costs a
 * script less than a question for each key that is over. A cluster has no such key.
 */
export const anyReservedKey = 'weir:reserve-any';

/**
 * Appends to `out` the keys with reservations that are open, 1, or expired, 2. `over` has the numbers in KEYS of the keys that are over,
 * or is nil if there are none; then no question is asked. With `isCluster`, it is unknown whether the server has any reservations. The
 * keys of reservations are not in KEYS, because a user without the right to read them may still count. TIME comes last, because Redis
 * before 5.0 writes nothing after it.
 */
export const luaReportOver = `
if over and (isCluster or type(pcall('GET', '${anyReservedKey}')) == 'string') then
  local reported, nowMs
  for n = 1, #over do
    local key = KEYS[over[n]]
    -- No window has more digits. A value of a request may have more, and each would be tried.
    local window = string.match(key, '%d*$', -20)
    local hash = 'weir:reserve:' .. string.sub(key, 1, #key - #window)
    local head, what = pcall('HGET', hash, 'h'), nil
    if type(head) == 'string' and #head == 56 then
      local ofHead, count, _, due = struct.unpack('<dddd', head)
      if ofHead == (tonumber(window) or -1) then
        if count > 0 then what = ' 1 ' end
      elseif type(pcall('HGET', hash, 'o' .. window)) == 'string' then
        what = ' 1 '
      end
      -- At least one reservation can expire.
      if due < 4503599627370496 then
        if not nowMs then
          local time = pcall('TIME')
          nowMs = time.err and due or time[1] * 1000 + math.floor(time[2] / 1000)
        end
        if due <= nowMs then what = ' 2 ' end
      end
    end
    if what then reported = (reported or '') .. over[n] .. what end
  end
  if reported then out[#out + 1] = reported end
end
`;

/** The script's report, with keys by their positions in KEYS from 1 on. */
export type KeysOverLimit = readonly (readonly [key: number, what: ReservationsOnKey])[];

export const noKeysOver: KeysOverLimit = [];

const pairs = /^(?:\d{1,6} [12] )+$/;

/** Reads the script's report at the end of a reply; undefined for anything else than pairs of numbers. */
export function keysOver(reported: unknown): KeysOverLimit | undefined {
  const text = reported instanceof Buffer ? reported.toString('latin1') : '';
  if (!pairs.test(text)) return undefined;
  const numbers = text.trimEnd().split(' ').map(Number);
  return Array.from({ length: numbers.length / 2 }, (_, i) => [
    numbers[2 * i]!,
    numbers[2 * i + 1] as ReservationsOnKey,
  ]);
}

/** Reads the report after a reply's `plain` values, if there is one. Undefined if the reply has another or a further value there. */
export function keysOverAt(reply: readonly unknown[], plain: number): KeysOverLimit | undefined {
  if (reply.length === plain) return noKeysOver;
  return reply.length === plain + 1 ? keysOver(reply[plain]) : undefined;
}

/** Writes the report into an op on the key. */
export function noteKeyOver(op: Operation, what: ReservationsOnKey): void {
  if (what === ReservationsOnKey.expired) op.hasExpired = true;
  else op.mayReturn = true;
}
