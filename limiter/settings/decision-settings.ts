/** Settings of decisions and of the details in their answers. Rows of the table in `settings.ts`. */
import { z } from 'zod';
import {
  bool,
  choice,
  float,
  headerName,
  headerNameOrNone,
  textOf,
} from '../../process/settings/settings-kinds.ts';
import type { SettingNeed } from '../../process/settings/settings-needs.ts';
import type { SettingsOf, SettingsTable } from '../../process/settings/settings-reader.ts';

const responseHeaders: readonly SettingNeed[] = [{ name: 'LIMIT_RESPONSE_HEADERS_ENABLED', is: [true] }];
const legacyHeaders: readonly SettingNeed[] = [
  ...responseHeaders,
  { name: 'LIMIT_RESPONSE_HEADERS_STYLE', is: ['legacy'] },
];
const requestHeaders: readonly SettingNeed[] = [{ name: 'LIMIT_REQUEST_HEADERS_ENABLED', is: [true] }];

const quotaUnitForm = '1 to 64 lowercase letters, digits and hyphens';

export const decisionSettings = {
  nearLimitRatio: {
    name: 'NEAR_LIMIT_RATIO',
    kind: float({ min: 0, max: 1 }),
    default: 0.8,
    summary: 'The part of a limit from which hits count as near_limit.',
  },
  useCalendarMonthRateLimit: {
    name: 'USE_CALENDAR_MONTH_RATE_LIMIT',
    kind: bool(),
    summary:
      'The unit month is the calendar month in UTC in place of 30 days. The limiter then rejects rules with several months, or with another algorithm for months.',
  },
  shadowMode: {
    name: 'SHADOW_MODE',
    kind: bool(),
    summary: 'Count and report, but answer OK to every request.',
  },
  quotaMode: {
    name: 'QUOTA_MODE',
    kind: bool(),
    summary:
      'Put every limit in [quota mode](rules-options.md): a request is over limit only if all its descriptors are. Descriptors without a rule are never over; unlimited ones do not count.',
  },
  responseDynamicMetadata: {
    name: 'RESPONSE_DYNAMIC_METADATA',
    kind: bool(),
    summary:
      "Add the request's descriptors and the rules' metadata to answers as dynamic metadata, and for rules in `quota_mode` [what is left](quotas.md#fallback-groups).",
  },
} as const satisfies SettingsTable;

export const headerSettings = {
  limitResponseHeadersEnabled: {
    name: 'LIMIT_RESPONSE_HEADERS_ENABLED',
    kind: bool(),
    summary: 'Add limit, remaining and reset to answers as response headers.',
  },
  limitResponseHeadersStyle: {
    name: 'LIMIT_RESPONSE_HEADERS_STYLE',
    needs: responseHeaders,
    kind: choice({ values: ['legacy', 'ietf'] }),
    default: 'legacy',
    summary:
      '`legacy`: the three headers below. `ietf`: `RateLimit-Policy` and `RateLimit` of draft-ietf-httpapi-ratelimit-headers-10 with every limit: `"1m";q=10;w=60` and `"1m";r=4;t=42`.',
  },
  limitQuotaUnit: {
    name: 'LIMIT_QUOTA_UNIT',
    needs: [...responseHeaders, { name: 'LIMIT_RESPONSE_HEADERS_STYLE', is: ['ietf'] }],
    kind: textOf(quotaUnitForm, 'word', z.string().regex(/^[a-z0-9-]{1,64}$/, quotaUnitForm)),
    default: 'requests',
    summary:
      'What a hit is, in `RateLimit-Policy`: `requests`, which the header omits, `content-bytes`, or your own word such as `tokens`. The `hits_unit` of a limit takes precedence.',
  },
  limitRetryAfterHeaderEnabled: {
    name: 'LIMIT_RETRY_AFTER_HEADER_ENABLED',
    kind: bool(),
    summary:
      'Add `Retry-After` to answers over limit: the seconds until the limits have room again, or until a block ends. Permanent blocks, and reservations of more than a limit, have none.',
  },
  limitLimitHeader: {
    name: 'LIMIT_LIMIT_HEADER',
    needs: legacyHeaders,
    kind: headerName(),
    default: 'RateLimit-Limit',
    summary:
      'Response header with the limit: `4`. For a rule with a `unit_multiplier`, another `algorithm` or several limits, all limits follow with their windows in seconds: `4, 4;w=1;burst=4, 10;w=15;name="quarter"`.',
  },
  limitRemainingHeader: {
    name: 'LIMIT_REMAINING_HEADER',
    needs: legacyHeaders,
    kind: headerName(),
    default: 'RateLimit-Remaining',
    summary: 'Response header with the remaining hits.',
  },
  limitResetHeader: {
    name: 'LIMIT_RESET_HEADER',
    needs: legacyHeaders,
    kind: headerName(),
    default: 'RateLimit-Reset',
    summary:
      'Response header with the seconds to the end of the window. For sliding windows and buckets: until one more hit passes, or until they are unused.',
  },
  limitPerUnitHeadersEnabled: {
    name: 'LIMIT_PER_UNIT_HEADERS_ENABLED',
    kind: bool(),
    summary:
      'Add `RateLimit-Limit-<Unit>` and `RateLimit-Remaining-<Unit>` to answers for every unit that applied. Other windows have names such as `RateLimit-Limit-10s`.',
  },
  limitRequestHeadersEnabled: {
    name: 'LIMIT_REQUEST_HEADERS_ENABLED',
    kind: bool(),
    summary: 'Let the proxy add limit, remaining and reset to the request that it forwards.',
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
  limitWarningHeader: {
    name: 'LIMIT_WARNING_HEADER',
    kind: headerNameOrNone(),
    default: 'X-RateLimit-Warning',
    summary:
      'Response header of answers whose limits reached a mark of [`warn_at`](quotas.md#warn_at), the highest first: `95;policy="daily";r=12`. Empty: none. Not in the Go service.',
  },
  responseRuleIdentity: {
    name: 'RESPONSE_RULE_IDENTITY',
    kind: choice({ values: ['off', 'metadata', 'header', 'both'], synonyms: { false: 'off' } }),
    default: 'off',
    summary:
      'Name the limit that is over or nearest in answers, with its usage: as `decidedBy` in the dynamic metadata, in the header `RULE_IDENTITY_HEADER`, or both.',
  },
  ruleIdentityHeader: {
    name: 'RULE_IDENTITY_HEADER',
    needs: [{ name: 'RESPONSE_RULE_IDENTITY', is: ['header', 'both'] }],
    kind: headerName(),
    default: 'X-RateLimit-Rule',
    summary:
      'Response header with the limit that decided: `"shop";rule="shop.remote_address";limit=10;window="1m";algorithm=fixed_window;used=11`.',
  },
} as const satisfies SettingsTable;

type HeaderSettings = SettingsOf<typeof headerSettings>;

/** Reports names that two of the configured headers share. The proxy would determine which of the two arrives. */
export function doubleHeaders(settings: HeaderSettings): string[] {
  const { limitResponseHeadersEnabled, limitResponseHeadersStyle: style, responseRuleIdentity } = settings;
  const hasIdentity = responseRuleIdentity === 'header' || responseRuleIdentity === 'both';
  const limitNames = ['limitLimitHeader', 'limitRemainingHeader', 'limitResetHeader'] as const;
  return [
    ...sameNames(settings, [
      ...(limitResponseHeadersEnabled && style === 'legacy' ? limitNames : []),
      ...(hasIdentity ? (['ruleIdentityHeader'] as const) : []),
      ...(settings.limitWarningHeader === '' ? [] : (['limitWarningHeader'] as const)),
    ]),
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
      `${variable} names the same header as ${other}, ${settings[key]}: the proxy would get both values under one name`,
    ];
  });
}
