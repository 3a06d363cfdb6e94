/** AdmissionReview of `admission.k8s.io/v1`: what the API server asks about an object before it is stored, and what it is sent. */
import { z } from 'zod';
import { type RejectionReason, reasons } from '../model/reasons.ts';
import { shortened } from '../reconcile/conditions.ts';

const objectModel = z.object({
  metadata: z.object({
    name: z.string(),
    namespace: z.string(),
    uid: z.string(),
    generation: z.number(),
    creationTimestamp: z.string().exactOptional(),
    labels: z.record(z.string(), z.string()).exactOptional(),
  }),
  spec: z.unknown().optional(),
  status: z.unknown().optional(),
});

const reviewModel = z.object({
  apiVersion: z.literal('admission.k8s.io/v1'),
  kind: z.literal('AdmissionReview'),
  request: z.object({
    uid: z.string().min(1),
    resource: z.object({ group: z.string(), resource: z.string() }),
    subResource: z.string().optional(),
    /** Missing where the object goes. */
    object: objectModel.nullish(),
    /** Missing where it comes. */
    oldObject: objectModel.nullish(),
  }),
});

export type AdmissionRequest = z.infer<typeof reviewModel>['request'];

export type AdmissionAnswer =
  | { allowed: true; warnings: readonly string[] }
  | { allowed: false; reason: RejectionReason; message: string };

/** Never throws. */
export function readReview(body: Uint8Array): AdmissionRequest | { problem: string } {
  let value: unknown;
  try {
    value = JSON.parse(Buffer.from(body.buffer, body.byteOffset, body.byteLength).toString());
  } catch {
    return { problem: 'the body is not JSON' };
  }
  const review = reviewModel.safeParse(value);
  if (review.success) return review.data.request;
  const [issue] = review.error.issues;
  return { problem: `not an AdmissionReview: ${issue?.path.join('.')}: ${issue?.message}` };
}

/** The body of the answer. `reason` of a refusal becomes that of the error that kubectl prints. */
export function reviewAnswer(uid: string, answer: AdmissionAnswer): string {
  const response = answer.allowed
    ? { uid, allowed: true, warnings: answer.warnings }
    : {
        uid,
        allowed: false,
        status: {
          ...(reasons[answer.reason].rejects.admission === 422
            ? { code: 422, reason: 'Invalid' }
            : { code: 403, reason: 'Forbidden' }),
          message: answer.message,
        },
      };
  return JSON.stringify({ apiVersion: 'admission.k8s.io/v1', kind: 'AdmissionReview', response });
}

/** Longer ones may be cut ("Dynamic Admission Control", Response): 256 characters each, 4,096 in all. */
const longestWarning = 256;
const mostWarnings = 15;

/** Bounds the texts as the API server does. A character that cannot be printed would cost the whole warning. */
export function boundedWarnings(texts: readonly string[]): string[] {
  const shown = texts.length <= mostWarnings ? texts : texts.slice(0, mostWarnings - 1);
  const rest = texts.length - shown.length;
  const bounded = shown.map((text) =>
    shortened(text.replace(/[^\p{L}\p{M}\p{N}\p{P}\p{S} ]/gu, '\uFFFD'), longestWarning),
  );
  return rest === 0 ? bounded : [...bounded, `and ${rest} more warnings: weir check reports them all`];
}
