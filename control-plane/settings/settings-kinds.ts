/** The kinds of values that only settings of the control plane have. */
import { z } from 'zod';
import { dnsLabel, type SettingKind } from '../../process/settings/settings-kinds.ts';
import { parseLabelSelector } from '../source/label-selector.ts';
import { isClientName } from '../xds/caller-identity.ts';

/** A Service in the form `namespace/name`. */
export function serviceName(): SettingKind<string> {
  const { schema } = dnsLabel();
  return {
    expected: 'a Service as namespace/name',
    brief: 'namespace/name',
    schema: z.string().refine((text) => {
      const parts = text.split('/');
      return parts.length === 2 && parts.every((part) => schema.safeParse(part).success);
    }),
    format: (value) => value,
  };
}

/** The name of a limiter in XDS_CLIENT_FLEETS. */
export function clientName(): SettingKind<string> {
  return {
    expected:
      'a DNS name, URI or common name of a certificate, system:serviceaccount:<namespace>:<name> or token:<name>',
    brief: '<name of a certificate>, system:serviceaccount:<namespace>:<name> or token:<name>',
    schema: z.string().refine((name) => isClientName(name)),
    format: (value) => value,
  };
}

/** A label selector in the syntax of `kubectl get -l`. */
export function labelSelector(): SettingKind<string> {
  const expected = 'a label selector such as team=payments,tier in (edge,core),!legacy';
  return {
    expected,
    brief: 'label selector',
    schema: z.string().superRefine((value, { addIssue }) => {
      const parsed = parseLabelSelector(value);
      if ('problem' in parsed) addIssue({ code: 'custom', message: `${expected}; ${parsed.problem}` });
    }),
    format: (value) => value,
  };
}
