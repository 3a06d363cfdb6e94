/** What one object may hold. Chosen: far above what rules in use need, low enough that nothing gets out of hand. */
export const bounds = {
  /** Levels of `descriptors` below `spec`. Each adds to the CRD, because its schema knows no recursion. */
  descriptorLevels: 8,
  /** Rules of one level. An object of such size is near what etcd takes (1.5 MiB). */
  descriptorsPerLevel: 10_000,
  /** Of a DNS label. */
  fleetLength: 63,
  classLength: 63,
  domainLength: 253,
  keyLength: 1024,
  valueLength: 4096,
  limitNameLength: 253,
  replaces: 64,
  /** Nested objects and lists of `metadata`. Limiters read at most 100 nested messages, and each takes up to three. */
  metadataLevels: 16,
} as const;

/** The fleet of limiters that name none. */
export const defaultFleet = 'default';

/** The class of objects that name none, and of a control plane that is told of none. */
export const defaultClass = 'weir';

/** Lower case letters, digits and inner hyphens, as in a DNS label. */
export const dnsLabelPattern = '^[a-z0-9]([-a-z0-9]*[a-z0-9])?$';
/** Labels joined by dots: what the API server takes as the name of a custom object. */
export const dnsNamePattern = '^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$';
/** Of a name of an object. */
export const objectNameLength = 253;
