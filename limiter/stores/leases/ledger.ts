/** Runs that tell the ledger of a counter's leases something: what lease-book.ts says, in the script that counts. */
import type { FoldedRun } from '../folded-run.ts';

/**
 * The ledger is a hash beside the counter: `t` hits outstanding, of `n` limiters, and for each of them the number of its last
 * message and what that was granted, all of it outstanding until the next one. It lives as long as the counter, and is void
 * without it: nothing is given back to a counter that is gone. Stands behind `luaSteps`.
 */
export const luaLeases = `
-- The words from at on are the message's number, that of the grant it tells of, hits spent, wanted, and at most, the limit,
-- whether the limiter may be forgotten, what clamp wants, and from where on the key is over. Gives the value without what was given back, the hits
-- outstanding then, and those granted, or an error where the ledger cannot be used; or an error alone.
local function lease(at, limiter, key, ledger, reserved, refused)
  local function number(i) return tonumber(words[at + i]) end
  local value, missing = look(key)
  if type(value) == 'table' then return value end
  local total, holders, last, mine = 0, 0, 0, 0
  local held = refused or pcall('HMGET', ledger, 't', 'n', limiter)
  local isNew = not held[1] or missing
  if held.err then
    refused = held
  elseif missing then
    if held[1] then pcall('DEL', ledger) end
  elseif not isNew then
    total, holders = tonumber(held[1]) or 0, tonumber(held[2]) or 0
    if held[3] then
      local a, b = string.match(held[3], '^(%d+) (%d+)$')
      last, mine = tonumber(a) or 0, tonumber(b) or 0
    end
  end
  local ttl = words[at + 10]
  local stays = missing and ttl == '0'
  local heard = number(0) > last and not refused
  local now = value
  if heard and mine > 0 then
    -- Of a grant that the limiter did not hear of nothing was spent.
    now = math.max(0, now - mine + (number(1) == last and math.min(mine, number(2)) or 0))
    total, holders = math.max(0, total - mine), math.max(0, holders - 1)
  end
  local floor = math.min(total, now)
  local after = math.min(max, floor + math.min(number(9), math.max(number(8), now - floor + number(7))))
  local granted = 0
  local left, sharers = number(5) - after, holders + 1
  if heard and not stays and number(3) >= 2 and left >= sharers * number(4) then
    granted = math.min(number(3), number(4), math.floor(left / sharers))
  end
  if granted > 0 then
    -- A budget with open reservations is counted hit by hit. Not one of KEYS, as who may not read it may lease.
    local window = string.match(key, '%d*$', -20)
    local open = pcall('HMGET', reserved, 'h', 'o' .. window)
    if open[1] and #open[1] >= 16 then
      local ofHead, count = struct.unpack('<dd', open[1])
      if count > 0 and ofHead == (tonumber(window) or -1) then granted = 0 end
    end
    if open[2] then granted = 0 end
  end
  local forgets = words[at + 6] == '1' and granted == 0
  if heard and not (isNew and (forgets or stays)) then
    if granted > 0 then holders = holders + 1 end
    -- First of all, as what cannot be written is refused here.
    local own = string.format('%.0f %.0f', number(0), granted)
    local wrote = pcall('HMSET', ledger, 't', total + granted, 'n', holders, limiter, own)
    if wrote.err then return lease(at, limiter, key, ledger, reserved, wrote) end
    if forgets then
      pcall('HDEL', ledger, limiter)
      if holders == 0 and pcall('HLEN', ledger) == 2 then pcall('DEL', ledger) end
    end
  end
  local wrote
  if missing then
    if not stays then wrote = pcall('SETEX', key, ttl, after + granted) end
  elseif after + granted ~= value then
    wrote = pcall('INCRBY', key, after + granted - value)
  end
  if type(wrote) == 'table' and wrote.err then
    -- It would have no life.
    if heard and isNew then pcall('DEL', ledger) end
    return wrote
  end
  if heard and isNew then
    local life = pcall('PTTL', key)
    if type(life) == 'number' and life > 0 then pcall('PEXPIRE', ledger, life) end
  end
  return now, total, refused or granted
end

-- Counts the keys behind first, each with its ledger, and gives the last one's place. The text is the limiter, and
-- the words of each; what is reserved on them is named by the last arguments.
local function countLeased(first, text, out)
  local groups = words
  words = {}
  for word in string.gmatch(text, '%S+') do words[#words + 1] = word end
  local named = argc - (#words - 1) / 12
  for at = 2, #words, 12 do
    named = named + 1
    local now, total, granted = lease(at, words[1], KEYS[first + 1], KEYS[first + 2], ARGV[named])
    if type(now) == 'number' and now > tonumber(words[at + 11]) then isOver(first + 1) end
    out[#out + 1] = exact(now)
    out[#out + 1] = exact(total or 0)
    out[#out + 1] = exact(granted or 0)
    first = first + 2
  end
  words = groups
  return first
end
`;

/** The argument of `luaBoundedCountSection` that says what is told. */
export function leaseArgument(runs: readonly FoldedRun[]): string {
  let text = '';
  for (const { lease, shift, low, high, ttlSeconds, most: mostBefore } of runs) {
    const { limiter, sequence, grantedBy, spent, want, most, limit, forgets } = lease!;
    if (text === '') text = limiter;
    text += ` ${sequence} ${grantedBy} ${spent} ${want} ${most} ${limit} ${forgets ? 1 : 0}`;
    text += ` ${shift} ${low} ${high} ${ttlSeconds} ${mostBefore}`;
  }
  return text;
}
