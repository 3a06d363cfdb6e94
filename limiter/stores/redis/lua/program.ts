/**
 * The one program that runs in Redis. It has a section for each kind of work, and a call runs the sections that it names. A section
 * creates only the functions that its call needs, so a long text costs a call no more than a short one.
 */
import { luaBoundedCountSection, luaStopSection } from './bounded-scripts.ts';
import { luaReservationSection } from './reservation-script.ts';
import { luaBase, luaCountSection, redisScript } from './scripts.ts';

/** The name of a section in a call. */
export type Section = 'count' | 'bounded' | 'stop' | 'reservations';

const sections: { readonly [name in Section]: string } = {
  count: luaCountSection,
  bounded: luaBoundedCountSection,
  stop: luaStopSection,
  reservations: luaReservationSection,
};

const branches = Object.entries(sections)
  .filter(([name]) => name !== 'count')
  .map(([name, lua]) => `if name == '${name}' then\n${lua}\n`);

/** The name in a call with several sections. */
export const severalSections = 'several';

/**
 * The last of ARGV names the section. If it names none, the call counts plain windows, as most do. A call of several sections lists
 * them in the argument before, each with the number of its keys and arguments. Its answer is a list of their answers. A section has
 * its own `KEYS`, `ARGV` and `argc`, and writes `answer`.
 */
export const program = redisScript(`${luaBase}
local KEYS, ARGV, argc = KEYS, ARGV, #ARGV - 1
local name, answer = ARGV[argc + 1], nil
local nextSection, answers, allKeys, allArguments, firstKey, firstArgument
if name == '${severalSections}' then
  -- Otherwise, Redis before 5.0 writes nothing after TIME, which a section before another one may call.
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
