/** How requests are decided, and what answers carry of it. Rows of the table in `settings.ts`. */
import { z } from 'zod';
import {
  bool,
  choice,
  duration,
  float,
  headerName,
  headerNameOrNone,
  integer,
  text,
  textOf,
} from '../../process/settings/settings-kinds.ts';
import type { SettingNeed } from '../../process/settings/settings-needs.ts';
import type { SettingsOf, SettingsTable } from '../../process/settings/settings-reader.ts';
import { defaultOverridesMaxSeconds } from '../../rules/override.ts';

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
    summary:
      "Answers carry the request's descriptors and the rules' metadata as dynamic metadata, and of rules in `quota_mode` [what is left](quotas.md#fallback-groups).",
  },
} as const satisfies SettingsTable;

/** What [lies over the rules](overrides.md) for a time. */
export const overrideSettings = {
  overridesDir: {
    name: 'OVERRIDES_DIR',
    kind: text(),
    summary:
      'Folder whose `*.yaml` and `*.yml` files are [overrides](overrides.md), followed while it changes; it need not be there. Empty: `RUNTIME_ROOT/RUNTIME_SUBDIRECTORY/overrides`. Not in the Go service.',
  },
  overridesMax: {
    name: 'OVERRIDES_MAX',
    kind: integer({ min: 0, max: 100_000 }),
    default: 10_000,
    summary:
      'Overrides and grants that `/v1/overrides` keeps at most; others are refused. Not in the Go service.',
  },
  overridesMaxSeconds: {
    name: 'OVERRIDES_MAX_SECONDS',
    kind: integer({ min: 1, max: 315_360_000 }),
    default: defaultOverridesMaxSeconds,
    summary:
      'How far away the end of an override can be that is set here or stands in a file; one that is permanent has none. Not in the Go service.',
  },
  overridesPollIntervalMs: {
    name: 'OVERRIDES_POLL_INTERVAL',
    kind: duration({ min: 100, max: 3_600_000 }),
    default: 1_000,
    summary:
      'How often a limiter looks in the store whether overrides changed, should it have missed the message. Not in the Go service.',
  },
} as const satisfies SettingsTable;

export const headerSettings = {
  limitResponseHeadersEnabled: {
    name: 'LIMIT_RESPONSE_HEADERS_ENABLED',
    kind: bool(),
    summary: 'Answers carry limit, remaining and reset as response headers.',
  },
  limitResponseHeadersStyle: {
    name: 'LIMIT_RESPONSE_HEADERS_STYLE',
    needs: responseHeaders,
    kind: choice({ values: ['legacy', 'ietf'] }),
    default: 'legacy',
    summary:
      'Which response headers: `legacy`, the three below; `ietf`, `RateLimit-Policy` and `RateLimit` of draft-ietf-httpapi-ratelimit-headers-10, with every limit that applied: `"1m";q=10;w=60` and `"1m";r=4;t=42`.',
  },
  limitQuotaUnit: {
    name: 'LIMIT_QUOTA_UNIT',
    needs: [...responseHeaders, { name: 'LIMIT_RESPONSE_HEADERS_STYLE', is: ['ietf'] }],
    kind: textOf(quotaUnitForm, 'word', z.string().regex(/^[a-z0-9-]{1,64}$/, quotaUnitForm)),
    default: 'requests',
    summary:
      'What a hit is, for `RateLimit-Policy`: `requests`, which is not written, `content-bytes`, or a word of your own such as `tokens`. The `hits_unit` of a limit goes before it.',
  },
  limitRetryAfterHeaderEnabled: {
    name: 'LIMIT_RETRY_AFTER_HEADER_ENABLED',
    kind: bool(),
    summary:
      'Refusals carry `Retry-After`, in seconds: when the limits that refuse have room again. Answers that let pass do not, nor a refused reservation of more than a limit.',
  },
  limitLimitHeader: {
    name: 'LIMIT_LIMIT_HEADER',
    needs: legacyHeaders,
    kind: headerName(),
    default: 'RateLimit-Limit',
    summary:
      'Response header with the limit: `4`. Of a rule with a `unit_multiplier`, another `algorithm` or several limits all of them follow, with their windows in seconds: `4, 4;w=1;burst=4, 10;w=15;name="quarter"`.',
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
  limitWarningHeader: {
    name: 'LIMIT_WARNING_HEADER',
    kind: headerNameOrNone(),
    default: 'X-RateLimit-Warning',
    summary:
      'Response header of answers whose limits have reached a mark of [`warn_at`](quotas.md#warn_at), the highest first: `95;policy="daily";r=12`. Empty: none. Not in the Go service.',
  },
  responseRuleIdentity: {
    name: 'RESPONSE_RULE_IDENTITY',
    kind: choice({ values: ['off', 'metadata', 'header', 'both'], synonyms: { false: 'off' } }),
    default: 'off',
    summary:
      'Answers name the limit that refuses, or else the nearest one, with what is used of it: as `decidedBy` in the dynamic metadata, for access logs, in the response header `RULE_IDENTITY_HEADER`, which clients see, or in both. Rules with `hide_identity` are not named.',
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

/** Of what is sent, two headers with one name: the second one is lost, or the reader's, as the proxy pleases. */
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
      `${variable} names the same header as ${other}, ${settings[key]}: the proxy gets both values under one name`,
    ];
  });
}
