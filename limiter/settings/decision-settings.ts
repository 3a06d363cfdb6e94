/** How requests are decided, and what answers carry of it. Rows of the table in `settings.ts`. */
import { bool, float, headerName } from '../../process/settings/settings-kinds.ts';
import type { SettingNeed } from '../../process/settings/settings-needs.ts';
import type { SettingsOf, SettingsTable } from '../../process/settings/settings-reader.ts';

const responseHeaders: readonly SettingNeed[] = [{ name: 'LIMIT_RESPONSE_HEADERS_ENABLED', is: [true] }];
const requestHeaders: readonly SettingNeed[] = [{ name: 'LIMIT_REQUEST_HEADERS_ENABLED', is: [true] }];

export const decisionSettings = {
  nearLimitRatio: {
    name: 'NEAR_LIMIT_RATIO',
    kind: float({ min: 0, max: 1 }),
    default: 0.8,
    summary: 'From which part of a limit on hits count as near_limit.',
  },
  useCalendarMonthRateLimit: {
    name: 'USE_CALENDAR_MONTH_RATE_LIMIT',
    kind: bool(),
    summary:
      'The unit month is the calendar month in UTC instead of 30 days. Rules with several months, or another algorithm for months, are then refused.',
  },
  shadowMode: {
    name: 'SHADOW_MODE',
    kind: bool(),
    summary: 'Count and report, but let every request pass.',
  },
  quotaMode: {
    name: 'QUOTA_MODE',
    kind: bool(),
    summary:
      'Every limit is in quota mode: the request is over only if all of its descriptors with a quota are. One that no rule matches is a quota that is never over; an unlimited one is none, so a limit that is over beside it makes the request over.',
  },
  responseDynamicMetadata: {
    name: 'RESPONSE_DYNAMIC_METADATA',
    kind: bool(),
    summary: "Answers carry the request's descriptors and the rules' metadata as dynamic metadata.",
  },
} as const satisfies SettingsTable;

export const headerSettings = {
  limitResponseHeadersEnabled: {
    name: 'LIMIT_RESPONSE_HEADERS_ENABLED',
    kind: bool(),
    summary: 'Answers carry limit, remaining and reset as response headers.',
  },
  limitLimitHeader: {
    name: 'LIMIT_LIMIT_HEADER',
    needs: responseHeaders,
    kind: headerName(),
    default: 'RateLimit-Limit',
    summary:
      'Response header with the limit: `4`. Of a rule with a `unit_multiplier`, another `algorithm` or several limits all of them follow, with their windows in seconds: `4, 4;w=1;burst=4, 10;w=15;name="quarter"`.',
  },
  limitRemainingHeader: {
    name: 'LIMIT_REMAINING_HEADER',
    needs: responseHeaders,
    kind: headerName(),
    default: 'RateLimit-Remaining',
    summary: 'Response header with the remaining hits.',
  },
  limitResetHeader: {
    name: 'LIMIT_RESET_HEADER',
    needs: responseHeaders,
    kind: headerName(),
    default: 'RateLimit-Reset',
    summary:
      'Response header with the seconds to the end of the window; of a sliding window or a bucket that refuses until one more hit passes, of one that does not until nothing of it is used any more.',
  },
  limitPerUnitHeadersEnabled: {
    name: 'LIMIT_PER_UNIT_HEADERS_ENABLED',
    kind: bool(),
    summary:
      'Answers carry `RateLimit-Limit-<Unit>` and `RateLimit-Remaining-<Unit>` for every unit that applied, and for other windows such as `RateLimit-Limit-10s` or `-90m`; of a rule with several limits for the one that its answer is about.',
  },
  limitRequestHeadersEnabled: {
    name: 'LIMIT_REQUEST_HEADERS_ENABLED',
    kind: bool(),
    summary: 'The proxy adds limit, remaining and reset to the request that it forwards.',
  },
  limitRequestLimitHeader: {
    name: 'LIMIT_REQUEST_LIMIT_HEADER',
    needs: requestHeaders,
    kind: headerName(),
    default: 'RateLimit-Limit',
    summary: 'Request header with the limit, as `LIMIT_LIMIT_HEADER`.',
  },
  limitRequestRemainingHeader: {
    name: 'LIMIT_REQUEST_REMAINING_HEADER',
    needs: requestHeaders,
    kind: headerName(),
    default: 'RateLimit-Remaining',
    summary: 'Request header with the remaining hits.',
  },
  limitRequestResetHeader: {
    name: 'LIMIT_REQUEST_RESET_HEADER',
    needs: requestHeaders,
    kind: headerName(),
    default: 'RateLimit-Reset',
    summary: 'Request header with the seconds until reset, as `LIMIT_RESET_HEADER`.',
  },
} as const satisfies SettingsTable;

type HeaderSettings = SettingsOf<typeof headerSettings>;

/** Of what is sent, two headers with one name: the second one is lost, or the reader's, as the proxy pleases. */
export function doubleHeaders(settings: HeaderSettings): string[] {
  return [
    ...(settings.limitResponseHeadersEnabled
      ? sameNames(settings, ['limitLimitHeader', 'limitRemainingHeader', 'limitResetHeader'])
      : []),
    ...(settings.limitRequestHeadersEnabled
      ? sameNames(settings, [
          'limitRequestLimitHeader',
          'limitRequestRemainingHeader',
          'limitRequestResetHeader',
        ])
      : []),
  ];
}

type HeaderKey = Extract<keyof HeaderSettings, `${string}Header`>;

function sameNames(settings: HeaderSettings, keys: readonly HeaderKey[]): string[] {
  const nameOf = (key: HeaderKey): string => settings[key].toLowerCase();
  return keys.flatMap((key, index) => {
    const same = keys.slice(0, index).find((other) => nameOf(other) === nameOf(key));
    if (same === undefined) return [];
    const [variable, other] = [headerSettings[key].name, headerSettings[same].name];
    return [
      `${variable} names the same header as ${other}, ${settings[key]}: the proxy gets both values under one name`,
    ];
  });
}
