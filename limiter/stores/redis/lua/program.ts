/**
 * The one program that runs in Redis: a section for each thing that a call may ask, of which a call runs those that it names. A
 * section makes only the functions that its call needs, so that a long text costs a call no more than a short one.
 */
import { luaBoundedCountSection, luaStopSection } from './bounded-scripts.ts';
import { luaReservationSection } from './reservation-script.ts';
import { luaBase, luaCountSection, redisScript } from './scripts.ts';

/** How a call names a section. */
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

/** How a call says that it has several sections. */
export const severalSections = 'several';

/**
 * The last of ARGV names the section; where it names none the call counts plain windows, as most do. A call of several names each, with how many
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
