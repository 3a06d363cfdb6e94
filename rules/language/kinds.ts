/** The kinds of objects that Weir has in Kubernetes, how they may be called, and the fields of their specs. */
import { domainFields, type FieldRows, type OverrideRows, overrideFields } from './fields.ts';

export const group = 'ratelimit.weir.dev';
export const version = 'v1alpha1';
export const apiVersion = `${group}/${version}`;

/** The kind of objects that carry rules. */
export const kind = 'RateLimitConfig';
export const listKind = 'RateLimitConfigList';
export const plural = 'ratelimitconfigs';
export const singular = 'ratelimitconfig';

export const overrideKind = 'RateLimitOverride' as const;
export const overridePlural = 'ratelimitoverrides';

export const fleetKind = 'RateLimitFleet' as const;
export const fleetPlural = 'ratelimitfleets';

/** Labels joined by dots, which the API server accepts as the name of a custom object. */
export const dnsNamePattern = '^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$';
/** The largest length of an object's name. */
export const objectNameLength = 253;

/** Lower case letters, digits and inner hyphens, as in a DNS label. */
export const dnsLabelPattern = '^[a-z0-9]([-a-z0-9]*[a-z0-9])?$';
/** The largest length of a DNS label. */
export const dnsLabelLength = 63;

/** The class of objects and of control planes without a class of their own. */
export const defaultClass = 'weir';
/** The fleet of limiters that name none. */
export const defaultFleet = 'default';

/** The fields of a served object: the control plane that serves it, and the limiters that load it. */
const servedFields = (what: string) => {
  const label = {
    kind: 'text',
    mayBeNull: true,
    max: dnsLabelLength,
    pattern: dnsLabelPattern,
    form: 'a DNS label (lower case letters, digits and inner hyphens)',
  } as const;
  return {
    className: {
      ...label,
      default: defaultClass,
      description: `CLASS_NAME of the control plane that serves ${what}. Others ignore the object. Defaults to "${defaultClass}".`,
      example: defaultClass,
    },
    fleet: {
      ...label,
      default: defaultFleet,
      description: `Fleet of the limiters that load ${what}: those with fleet=<this name> in their node metadata. Defaults to "${defaultFleet}".`,
      example: defaultFleet,
    },
  } as const satisfies FieldRows;
};

/** Fields in `spec` of a RateLimitConfig. */
export const specFields = { ...servedFields('these rules'), ...domainFields } as const satisfies FieldRows;

/** Fields in `spec` of a RateLimitOverride. */
export const overrideSpecFields = {
  ...servedFields('this override'),
  ...overrideFields,
} as const satisfies OverrideRows;
