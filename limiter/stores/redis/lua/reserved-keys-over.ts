/**
 * What scripts that count say of keys that are over their limits: whether anything is reserved on them, so that a hit is
 * refused by one call. Only what has expired is worth another one, which gives it back (reservation-script.ts).
 */
import type { Operation } from '../../operation.ts';

/** What a key that is over has beside it, as the scripts say it. */
export const KeyOver = { open: 1, expired: 2 } as const;
export type KeyOver = (typeof KeyOver)[keyof typeof KeyOver];

/**
 * There as long as anything is reserved in the whole server: most have nothing reserved, and asking for one key costs a script
 * less than asking beside each that is over. A cluster has none.
 */
export const anyReservedKey = 'weir:reserve-any';

/**
 * Says behind all else in `out` which keys have reservations that are open, 1, or expired, 2. `over` are the numbers in KEYS of
 * those that are over, nil without any: then nothing of it runs. `isCluster`: nothing says whether anything is reserved at all.
 * What is reserved is not one of KEYS: a user without the right to read it may still count. TIME comes last: Redis before 5.0
 * writes nothing after it.
 */
export const luaReportOver = `
if over and (isCluster or type(pcall('GET', '${anyReservedKey}')) == 'string') then
  local reported, nowMs
  for n = 1, #over do
    local key = KEYS[over[n]]
    -- No window has more digits; a value of a request may, and each would be tried.
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
      -- There is something to expire at all.
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

/** What the scripts say of keys, by their places in KEYS from 1 on. */
export type KeysOver = readonly (readonly [key: number, what: KeyOver])[];

export const noKeysOver: KeysOver = [];

const pairs = /^(?:\d{1,6} [12] )+$/;

/** Reads what the scripts say behind all else; undefined for anything else than pairs of numbers. */
export function keysOver(reported: unknown): KeysOver | undefined {
  const text = reported instanceof Buffer ? reported.toString('latin1') : '';
  if (!pairs.test(text)) return undefined;
  const numbers = text.trimEnd().split(' ').map(Number);
  return Array.from({ length: numbers.length / 2 }, (_, i) => [
    numbers[2 * i]!,
    numbers[2 * i + 1] as KeyOver,
  ]);
}

/** The same of a reply with `plain` values that may end behind them; undefined for one that has something else there, or more. */
export function keysOverAt(reply: readonly unknown[], plain: number): KeysOver | undefined {
  if (reply.length === plain) return noKeysOver;
  return reply.length === plain + 1 ? keysOver(reply[plain]) : undefined;
}

/** Writes it into an op of the key. */
export function noteKeyOver(op: Operation, what: KeyOver): void {
  if (what === KeyOver.expired) op.hasExpired = true;
  else op.mayReturn = true;
}
