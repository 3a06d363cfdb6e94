/** The kinds of findings about rules and about proxies that ask for limits. */

type Reporter = 'reader' | 'review' | 'proxy' | 'quota filter';

/** The default severity of each kind, its description, and who reports it. `weir check` itself reports kinds without a reporter. */
export const findingKinds = {
  syntax: ['error', 'The text is not valid YAML or JSON', 'reader', 'proxy'],
  'wrong-type': ['error', 'A value has the wrong type for its field', 'reader'],
  'key-not-a-string': ['error', 'A key of a map is not a string', 'reader'],
  'unknown-key': ['error', 'A field is not part of the rule language', 'reader'],
  'misplaced-key': ['error', 'A field is in a place where it has no effect', 'reader'],
  'duplicate-key': ['error', 'A map has a field twice', 'reader'],
  'list-element-not-a-map': ['error', 'An element of a list is not a map', 'reader'],
  'empty-domain': ['error', 'Rules have no domain', 'reader'],
  'duplicate-domain': ['error', 'Two files or objects have the same domain', 'reader', 'review'],
  'duplicate-object': ['warning', 'Two manifests describe the same object'],
  'empty-key': ['error', 'A rule has no key', 'reader'],
  'duplicate-descriptor': ['error', 'Two rules of one level have the same key and value', 'reader'],
  'invalid-unit': ['error', 'A unit is unknown', 'reader'],
  'unit-when-unlimited': ['error', 'A rule has both a unit and unlimited', 'reader'],
  'invalid-window': ['error', 'A window is not valid', 'reader'],
  'invalid-algorithm': ['error', 'An algorithm is unknown', 'reader'],
  'burst-without-bucket': ['error', 'A limit has a burst but is not a token bucket', 'reader'],
  'invalid-limits': ['error', 'The limits of a rule cannot be combined', 'reader'],
  'duplicate-limit': ['error', 'Two limits of a rule have the same name or window', 'reader'],
  'invalid-calendar': ['error', 'A calendar is not valid, or the limit also has another window', 'reader'],
  'invalid-hits-unit': ['error', 'A hits_unit is not valid', 'reader'],
  'invalid-marks': ['error', 'The values of warn_at are not ascending percentages', 'reader'],
  'invalid-reserve': ['error', 'The terms of reservations are not valid', 'reader'],
  'invalid-lease': ['error', 'A lease is not a share of the limit', 'reader'],
  'invalid-assign': ['error', 'A form of assignments is unknown', 'reader'],
  uncountable: ['error', 'A limiter with these settings cannot count the rule', 'reader'],
  'empty-replaces': ['error', 'An element of replaces has no name', 'reader'],
  'replaces-itself': ['error', 'A limit replaces itself', 'reader'],
  'share-threshold-without-wildcard': [
    'error',
    'share_threshold is set, but the value has no pattern',
    'reader',
  ],
  'invalid-metadata': ['error', 'Metadata cannot be sent in an answer', 'reader'],
  'too-large': ['error', 'A bound is exceeded', 'reader'],
  'not-reviewed': ['note', 'A file is not reviewed further until you correct the errors'],
  'unread-document': [
    'error',
    'A rule file has several documents, and limiters read only the first one',
    'reader',
  ],
  'misplaced-file': ['warning', 'A file of callers, profiles or overrides is in the folder of the rules'],
  'ignored-file': ['warning', 'A file has rules, but not the name of a rule file', 'reader'],
  unreadable: ['error', 'A file or folder cannot be read', 'reader'],
  callers: ['error', 'A callers file has a mistake'],
  profiles: ['error', 'A file of profiles has a mistake'],
  'never-matches': ['error', 'No request can match a rule', 'review'],
  'shadowed-wildcard': ['error', 'An earlier pattern of the same level covers a pattern', 'review'],
  'no-effect': ['error', 'A rule has neither a limit nor rules below it', 'review'],
  'no-rules': ['warning', 'The arguments contain no rules', 'review'],
  'replaces-nothing': ['error', 'No limit of the domain has a name in replaces', 'review'],
  'replaces-unlimited': ['warning', 'Only an unlimited rule has a name in replaces', 'review'],
  'replaces-each-other': ['warning', 'Limits replace each other, so that none counts', 'review'],
  'limit-of-zero': ['error', 'A limit has no requests_per_unit, so every request is over limit', 'review'],
  'burst-of-zero': ['warning', 'A token bucket allows no request', 'review'],
  'never-tighter': ['warning', 'Another limit of the rule is always stricter than this one', 'review'],
  'never-leased': ['warning', 'A lease has no effect', 'review'],
  'never-assigned': [
    'warning',
    'A rule cannot be assigned to quota clients, or assign has no effect',
    'review',
  ],
  'mixed-hits-units': [
    'warning',
    'A request charges the same number to limits that count different things',
    'review',
  ],
  'large-estimate': ['error', 'An estimate is larger than the limit', 'review'],
  'literal-pattern': ['warning', 'A value looks like a pattern, but is compared literally', 'review'],
  'dotted-metric': ['warning', 'Dots add levels to the names of statistics', 'review'],
  'shared-metric': ['warning', 'Rules share the names of their statistics', 'review'],
  'inner-shared-wildcard': ['warning', 'share_threshold is set, but the pattern does not end in *', 'review'],
  'colliding-counters': ['warning', 'Counters of rules could share a key', 'review'],
  'unmatched-descriptor': ['error', 'A descriptor of the proxy has no limit', 'proxy'],
  'unreached-rule': ['error', 'No descriptor of the proxy reaches a rule', 'proxy'],
  'domain-without-rules': ['error', 'A domain of the proxy has no rules', 'proxy'],
  'unread-rate-limits': ['error', 'No filter reads a list of rate_limits', 'proxy'],
  'filter-without-rate-limits': ['error', 'No route has descriptors for a filter', 'proxy'],
  'rate-limit-service': ['error', 'The proxy cannot ask the limiter', 'proxy'],
  'rate-limits-off': ['error', 'A filter or a list is off', 'proxy'],
  'invalid-rate-limit': ['error', 'Envoy would not load an action', 'proxy'],
  'no-rate-limit-filter': ['warning', 'Routes have no filter', 'proxy'],
  'shadowed-rate-limits': ['warning', 'A route hides rate_limits of its virtual host', 'proxy'],
  'unused-domain': ['warning', 'No filter asks for a domain that has rules', 'proxy'],
  'charged-later': ['warning', 'A rule is charged after requests, and so never limits them', 'proxy'],
  'quota-crash': ['error', 'A configuration of the quota filter crashes Envoy', 'quota filter'],
  'quota-fallback': [
    'warning',
    'The quota filter does not limit requests without an assignment',
    'quota filter',
  ],
  'quota-interval': ['warning', 'Envoy ignores a reporting interval', 'quota filter'],
  'unmatched-bucket': ['warning', 'No rule matches a bucket', 'quota filter'],
  'ambiguous-bucket': ['warning', 'A bucket matches rules in several orders of its entries', 'quota filter'],
  'unassignable-rule': [
    'warning',
    'The rule of a bucket cannot be assigned to quota clients',
    'quota filter',
  ],
  'never-committed': ['warning', 'A list of rate_limits reserves, but never commits', 'proxy'],
} as const satisfies Record<string, readonly ['error' | 'warning' | 'note', string, ...Reporter[]]>;

type Kinds = typeof findingKinds;

/** The names of the kinds of one reporter. */
export type KindsOf<By extends Reporter> = {
  [Kind in keyof Kinds]: By extends Kinds[Kind][number] ? Kind : never;
}[keyof Kinds];

/** The kinds that a comparison with a proxy finds. */
export const proxyKinds: readonly string[] = Object.entries<readonly string[]>(findingKinds).flatMap(
  ([kind, [, , ...reporters]]) => (/proxy|quota filter/.test(reporters.join()) ? [kind] : []),
);
