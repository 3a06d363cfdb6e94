/** Reasons of conditions, each named after the fact observed. */

export const AcceptedReason = {
  /** The newest generation is served. */
  Valid: 'Valid',
  /** The spec has errors, all of them in the message. */
  Invalid: 'Invalid',
  /** Another object has the domain, or with merging a top-level descriptor of it. */
  DomainConflict: 'DomainConflict',
  /** DOMAIN_OWNERS gives the domain to other namespaces. */
  DomainNotAllowed: 'DomainNotAllowed',
} as const;

export const ProgrammedReason = {
  /** Every connected limiter of the fleet has the newest generation in force. */
  AllLimiters: 'AllLimiters',
  /** Some limiters have not answered yet. */
  Pending: 'Pending',
  /** Some limiter refused the rules, or others that came with them. */
  Refused: 'Refused',
  /** No limiter of the fleet is connected. */
  NoLimiters: 'NoLimiters',
  /** The newest generation is not served; an older one may be. */
  NotAccepted: 'NotAccepted',
} as const;

export const ReadyReason = {
  /** Accepted and programmed; otherwise the reason is that of the condition which is missing. */
  Ready: 'Ready',
} as const;

export const SupportedReason = {
  /** Limiters that are not Weir's ignore fields in use. */
  UnknownFields: 'UnknownFields',
  /** The fleet's snapshot is longer than what clients of gRPC take unless they are told otherwise. */
  SnapshotTooLarge: 'SnapshotTooLarge',
} as const;
