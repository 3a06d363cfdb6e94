/** Weights of quota clients that share a limit: RLQS_WEIGHTS. */
import { z } from 'zod';
import type { SettingKind } from '../../process/settings/settings-kinds.ts';
import type { Entry } from '../../rules/model.ts';

/** The client of a stream. */
export interface QuotaClient {
  /** The name from CALLERS_FILE; undefined if callers need no names. */
  readonly caller: string | undefined;
  readonly address: string;
  /** Metadata of the call: name, value, name, value. */
  readonly fields: readonly string[];
}

/** One item of RLQS_WEIGHTS. */
export interface Weight {
  readonly by: 'caller' | 'header' | 'entry';
  /** The name of the header or the entry; empty for a caller. */
  readonly name: string;
  readonly value: string;
  readonly weight: number;
}

const form = /^(?:(caller)|(header|entry):([^:=]+)):([^=]*)=(\d{1,4}(?:\.\d{1,2})?)$/;

export const weight: SettingKind<Weight> = {
  expected:
    'caller:<name>=<weight>, header:<name>:<value>=<weight> or entry:<key>:<value>=<weight>, weights above 0',
  brief: 'weight',
  schema: z.string().transform((text, context) => {
    const [, caller, by, name = '', value = '', number] = form.exec(text) ?? [];
    const parsed = Number(number);
    if (!(parsed > 0)) {
      context.addIssue({ code: 'custom', message: weight.expected });
      return z.NEVER;
    }
    const kind = (caller ?? by) as Weight['by'];
    return { by: kind, name: kind === 'header' ? name.toLowerCase() : name, value, weight: parsed };
  }),
  format: ({ by, name, value, weight: number }) =>
    by === 'caller' ? `caller:${value}=${number}` : `${by}:${name}:${value}=${number}`,
};

/** Returns the weight of the first item that matches; 1 if none does. */
export function weightOf(
  weights: readonly Weight[],
  { caller, fields }: Pick<QuotaClient, 'caller' | 'fields'>,
  entries: readonly Entry[],
): number {
  const fits = ({ by, name, value }: Weight): boolean => {
    if (by === 'caller') return caller === value;
    if (by === 'entry') return entries.some((entry) => entry.key === name && entry.value === value);
    return fields.some((field, n) => n % 2 === 0 && field === name && fields[n + 1] === value);
  };
  return weights.find(fits)?.weight ?? 1;
}
