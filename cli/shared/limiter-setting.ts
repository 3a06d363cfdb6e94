/** Describes the limiter of a command by the limiter's own settings, one `--setting NAME=VALUE` for each. */
import type { explainingSettings as ExplainingSettings } from '../../limiter/settings/naming.ts';
import type { LimiterSettings } from '../../limiter/settings/settings.ts';
import { parseGoBool } from '../../process/settings/go-values.ts';
import { hintOf, type ParsedFlags, UsageError } from './flags.ts';
import { io } from './io.ts';

interface GivenSettings {
  settings: LimiterSettings;
  warnings: readonly string[];
  /** The given settings, by name. */
  given: Readonly<Record<string, string>>;
}

export interface DescribedLimiter extends GivenSettings {
  explaining: ReturnType<typeof ExplainingSettings>;
}

const mergingSetting = 'MERGE_DOMAIN_CONFIG=';

/** Whether settings allow several files of one domain. The last setting of a name counts. */
export function mergesDomains(settings: readonly string[]): boolean {
  const given = settings.findLast((text) => text.startsWith(mergingSetting));
  return given !== undefined && parseGoBool(given.slice(mergingSetting.length)) === true;
}

/**
 * Returns the limiter that `--setting` describes. For `variables`, the environment counts if no flag is given. Returns undefined if no
 * setting is given; then no code of the limiter is loaded. Rejects with a UsageError.
 */
export async function describedLimiter(
  flags: ParsedFlags,
  variables: readonly string[],
): Promise<DescribedLimiter | undefined> {
  const inherited = variables.flatMap((name) => (io().env[name] ? [`${name}=${io().env[name]}`] : []));
  const all = [...inherited, ...flags.list('setting')];
  if (all.length === 0) return undefined;
  const { limiterSettingGroups, parseLimiterSettings } = await import('../../limiter/settings/settings.ts');
  const { explainingSettings } = await import('../../limiter/settings/naming.ts');
  const names = limiterSettingGroups.flatMap(({ settings }) =>
    Object.values(settings).map(({ name }) => name),
  );
  const found = parseSettingFlags(
    all,
    names,
    (env) => parseLimiterSettings({ ...addressesFor(env), DISABLE_STATS: 'true', ...env }),
    inherited.length,
  );
  return { ...found, explaining: explainingSettings(found.settings) };
}

/** A store setting needs an address, and rules are checked without one. */
function addressesFor(env: Record<string, string>): Record<string, string> {
  const redis = (prefix: string) => ({
    [`${prefix}SOCKET_TYPE`]: 'tcp',
    [`${prefix}URL`]:
      env[`${prefix}TYPE`]?.toUpperCase() === 'SENTINEL' ? 'main,localhost:26379' : 'localhost:6379',
  });
  return { ...redis('REDIS_'), ...redis('REDIS_PERSECOND_'), MEMCACHE_HOST_PORT: 'localhost:11211' };
}

/** Reads settings, each as `NAME=VALUE`. If a name is repeated, the last one counts, so variables come first. @throws UsageError */
export function parseSettingFlags(
  all: readonly string[],
  names: readonly string[],
  parse: (env: Record<string, string>) => {
    settings?: LimiterSettings | undefined;
    warnings?: readonly string[] | undefined;
    errors?: readonly { message: string }[] | undefined;
  },
  variables = 0,
): GivenSettings {
  const given: Record<string, string> = {};
  for (const text of all) {
    const [name = '', ...rest] = text.split('=');
    if (rest.length === 0) throw new UsageError(`--setting is NAME=VALUE, not "${text}"`);
    if (!names.includes(name)) {
      const taken = names.length > 30 ? 'the settings of a limiter' : names.join(', ');
      throw new UsageError(`--setting takes ${taken}; not "${name}"${hintOf(name, names)}`);
    }
    given[name] = rest.join('=');
  }
  const { settings, warnings = [], errors = [] } = parse(given);
  if (settings !== undefined) return { settings, warnings, given };
  const flagged = new Set(all.slice(variables).map((text) => text.split('=', 1)[0]));
  const words = errors.map(({ message }) => {
    const name = /^\w+/.exec(message)?.[0];
    return `${flagged.has(name) || variables === 0 ? '--setting:' : 'the variable'} ${message}`;
  });
  throw new UsageError(words.join('; '));
}
