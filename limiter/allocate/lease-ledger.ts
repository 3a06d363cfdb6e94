/**
 * The ledger of a counter in Redis: decides how many hits a lease, or the shares of quota clients, get from the counter. lease-book.ts
 * sends messages for leases, account.ts those for shares.
 */
import type { FoldedRun } from '../stores/folded-run.ts';

/**
 * The ledger is a hash beside the counter: `t` hits outstanding, of `n` limiters, and a field for each limiter. The field has the
 * number of its last message, the hits granted to it (all outstanding until the next message), and the hits that it had spent before
 * in total. For a limiter with shares it also has what they need, and until when that is valid. The ledger lives as long as the
 * counter, and is void without it: nothing is given back to a missing counter. This Lua follows `luaSteps`.
 */
export const luaLeases = `
-- The words from at on are those of leaseArgument. Returns the value without what was given back, the hits outstanding then, and
-- those granted. If shares are reported, the sums of other limiters follow. If only the ledger cannot be used, an error takes the
-- place of the granted hits; otherwise, it returns just an error.
local atMs = now and math.floor(now / 1000) or 0
local function lease(at, limiter, key, ledger, reserved, refused)
  local function number(i) return tonumber(words[at + i]) end
  local value, missing = look(key)
  if type(value) == 'table' then return value end
  local total, holders, last, mine, spent = 0, 0, 0, 0, number(1)
  local held = refused or pcall('HMGET', ledger, 't', 'n', limiter)
  local isNew = not held[1] or missing
  if held.err then
    refused = held
  elseif missing then
    if held[1] and type(pcall('DEL', ledger)) == 'table' then pcall('PEXPIRE', ledger, '0') end
  elseif not isNew then
    total, holders = tonumber(held[1]) or 0, tonumber(held[2]) or 0
    if held[3] then
      local a, b, c = string.match(held[3], '^(%d+) (%d+) (%d+)')
      last, mine, spent = tonumber(a) or 0, tonumber(b) or 0, tonumber(c) or spent
    end
  end
  local shares = number(9) > 0
  local all = shares and not refused and pcall('HGETALL', ledger)
  if all and all.err then refused = all end
  local ttl = words[at + 13]
  local stays = missing and ttl == '0'
  local isNewer = number(0) > last and not refused
  local now = value
  if isNewer and mine > 0 then
    now = math.max(0, now - mine + math.min(mine, math.max(0, number(1) - spent)))
    total, holders = math.max(0, total - mine), math.max(0, holders - 1)
  end
  local floor = math.min(total, now)
  local after = math.min(max, floor + math.min(number(12), math.max(number(11), now - floor + number(10))))
  local granted = 0
  local left, sharers = number(5) - after, holders + 1
  if isNewer and not stays then
    if shares then granted = number(2) + math.min(number(3), math.max(0, left - number(2)))
    elseif number(3) >= 2 and left >= sharers * number(4) then
      granted = math.min(number(3), number(4), math.floor(left / sharers))
    end
  end
  if granted > number(2) then
    -- A budget with open reservations is counted hit by hit. These keys are not in KEYS, because users without the right to read them
    -- may lease.
    local window = string.match(key, '%d*$', -20)
    local open = pcall('HMGET', reserved, 'h', 'o' .. window)
    if open[1] and #open[1] >= 16 then
      local ofHead, count = struct.unpack('<dd', open[1])
      if count > 0 and ofHead == (tonumber(window) or -1) then granted = number(2) end
    end
    if open[2] then granted = number(2) end
  end
  local forgets = words[at + 6] == '1' and granted == 0
  if isNewer and not (isNew and (forgets or stays)) then
    if granted > 0 then holders = holders + 1 end
    -- This comes first, because a write that Redis cannot do is rejected here.
    local own = string.format('%.0f %.0f %.0f', number(0), granted, number(1))
    -- The sums are from before the message.
    local charged = number(7) + granted - number(2)
    if shares then own = string.format('%s %.0f %.0f %.0f', own, charged, number(8), atMs + number(9)) end
    local wrote = pcall('HMSET', ledger, 't', total + granted, 'n', holders, limiter, own)
    -- Without the right to end it, no ledger is made.
    if isNew and not wrote.err then
      local life = missing or pcall('PTTL', key)
      if type(life) ~= 'number' or life <= 0 then life = ttl * 1000 end
      local ends = pcall('PEXPIRE', ledger, life)
      if type(ends) == 'table' then
        pcall('DEL', ledger)
        wrote = ends
      end
    end
    if wrote.err then return lease(at, limiter, key, ledger, reserved, wrote) end
  end
  local wrote
  if missing then
    if not stays then wrote = pcall('SETEX', key, ttl, after + granted) end
  elseif after + granted ~= value then
    wrote = pcall('INCRBY', key, after + granted - value)
  end
  if type(wrote) == 'table' and wrote.err then
    -- Nothing was granted.
    if isNewer and isNew then pcall('DEL', ledger)
    elseif isNewer then
      pcall('HMSET', ledger, 't', held[1], 'n', held[2] or 0, limiter, held[3] or '')
      if not held[3] then pcall('HDEL', ledger, limiter) end
    end
    return wrote
  end
  if isNewer and not isNew and forgets then
    pcall('HDEL', ledger, limiter)
    if holders == 0 and pcall('HLEN', ledger) == 2 then pcall('DEL', ledger) end
  end
  if not shares or refused then return now, total, refused or granted end
  -- Limiters that sent nothing for this long need nothing any more.
  local charged, hungry = 0, 0
  for i = 1, #all, 2 do
    local a, b, till = string.match(all[i + 1], '^%d+ %d+ %d+ (%-?%d+) (%d+) (%d+)$')
    if a and all[i] ~= limiter and tonumber(till) > atMs then charged, hungry = charged + a, hungry + b end
  end
  return now, total, string.format('%.0f %.0f %.0f', granted, charged, hungry)
end

-- Counts the keys that follow first, each with its ledger, and returns the position of the last one. The text is the limiter, and the
-- words of each key. The last arguments name the hashes of reservations.
local function countLeased(first, text, out)
  local groups = words
  words = {}
  for word in string.gmatch(text, '%S+') do words[#words + 1] = word end
  local named = argc - (#words - 1) / 15
  for at = 2, #words, 15 do
    named = named + 1
    local now, total, granted = lease(at, words[1], KEYS[first + 1], KEYS[first + 2], ARGV[named])
    if type(now) == 'number' and now > tonumber(words[at + 14]) then isOver(first + 1) end
    out[#out + 1] = exact(now)
    out[#out + 1] = exact(total or 0)
    out[#out + 1] = exact(granted or 0)
    first = first + 2
  end
  words = groups
  return first
end
`;

/**
 * Returns the argument of `luaBoundedCountSection` for these messages. For each: its number; hits that are spent, that stay, that are
 * wanted, and wanted at most; the limit; whether the limiter may be forgotten; its needs and how long they are valid; the arguments
 * of `clamp`; and the total from which the key is over.
 */
export function leaseArgument(runs: readonly FoldedRun[]): string {
  let text = '';
  for (const { lease, shift, low, high, ttlSeconds, lifeSeconds, max: maxBefore } of runs) {
    const { limiter, sequence, spent, keeps, want, max, limit, forgets, charged, hungry, livesMs } = lease!;
    if (text === '') text = limiter;
    text += ` ${sequence} ${spent} ${keeps} ${want} ${max} ${limit} ${forgets ? 1 : 0}`;
    text += ` ${charged} ${hungry} ${livesMs} ${shift} ${low} ${high} ${livesMs > 0 ? lifeSeconds : ttlSeconds} ${maxBefore}`;
  }
  return text;
}
