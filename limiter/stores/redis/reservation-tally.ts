/** Tallies of reservations that limiters share in Redis. Each has one key, which ends with the last reservation that it counts. */
import type { TallyChanges } from '../store.ts';
import { luaBase, redisScript } from './lua/scripts.ts';
import type { KeyedCommands } from './wire/redis-connection.ts';

/**
 * KEYS is the tally, a text of `<end>:<count>` with ends in seconds since the epoch. ARGV is the time in these seconds, then an end
 * and a number for each change. The script returns the resulting text, without what has ended.
 */
const tallyScript = redisScript(`${luaBase}
local held = pcall('GET', KEYS[1])
if type(held) == 'table' then return held end
local counts, now = {}, tonumber(ARGV[1])
for finish, count in string.gmatch(held or '', '(%d+):(%d+)') do counts[finish] = tonumber(count) end
for i = 2, #ARGV, 2 do counts[ARGV[i]] = math.max(0, (counts[ARGV[i]] or 0) + ARGV[i + 1]) end
local parts, last = {}, now
for finish, count in pairs(counts) do
  if tonumber(finish) > now and count > 0 then
    parts[#parts + 1] = finish .. ':' .. string.format('%.0f', count)
    last = math.max(last, tonumber(finish))
  end
end
local text = table.concat(parts, ' ')
local wrote
if text == '' then wrote = held and pcall('DEL', KEYS[1])
else wrote = pcall('SETEX', KEYS[1], string.format('%.0f', last - now + 1), text) end
if type(wrote) == 'table' and wrote.err then return wrote end
return text
`);

/** Shares changes of a tally, and resolves to the whole tally. Rejects with a StoreError. */
export async function shareTally(
  commands: KeyedCommands,
  key: string,
  changes: TallyChanges,
  nowMs: number,
): Promise<TallyChanges> {
  const args = [tallyScript.source, '1', key, String(Math.floor(nowMs / 1000))];
  for (const [end, count] of changes) args.push(String(end), String(count));
  try {
    const reply = await commands.send(key, 'eval', args);
    if (!(reply instanceof Buffer)) throw reply;
    const pairs = String(reply).matchAll(/(\d+):(\d+)/g);
    return new Map([...pairs].map(([, end, count]) => [Number(end), Number(count)]));
  } catch (error) {
    throw commands.translate(error);
  }
}
