/** The settings of a limiter that change what it answers, given by flags: a replay reads no environment. */
import { type LimiterSettings, parseLimiterSettings } from '../../limiter/settings/settings.ts';
import { UsageError } from '../shared/flags.ts';

/** All others change nothing in a replay. */
export const replaySettingNames = [
  'NEAR_LIMIT_RATIO',
  'USE_CALENDAR_MONTH_RATE_LIMIT',
  'STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT',
  'SHADOW_MODE',
  'QUOTA_MODE',
  'COUNTER_KEYS',
  'MERGE_DOMAIN_CONFIG',
  'MEMORY_STORE_MAX_COUNTERS',
  'MEMORY_STORE_MAX_BYTES',
] as const;

/** From `NAME=VALUE` each. */
export function readReplaySettings(given: readonly string[]): LimiterSettings {
  const env: Record<string, string> = { BACKEND_TYPE: 'memory', DISABLE_STATS: 'true' };
  for (const text of given) {
    const [name = '', ...rest] = text.split('=');
    if (rest.length === 0) throw new UsageError(`--setting is NAME=VALUE, not "${text}"`);
    if (!replaySettingNames.some((known) => known === name)) {
      throw new UsageError(`--setting takes ${replaySettingNames.join(', ')}; not "${name}"`);
    }
    env[name] = rest.join('=');
  }
  const parsed = parseLimiterSettings(env);
  if (parsed.errors !== undefined) {
    throw new UsageError(parsed.errors.map(({ message }) => `--setting: ${message}`).join('; '));
  }
  return parsed.settings;
}
