/**
 * Reviews an object before it is stored, with the same functions that decide about stored objects. Reads and answers the AdmissionReview
 * of `admission.k8s.io/v1`.
 */
import { isDeepStrictEqual } from 'node:util';
import { z } from 'zod';
import { fleetPlural, group, overridePlural, plural } from '../../rules/language/kinds.ts';
import { fieldName, manifestWords } from '../../rules/language/tables.ts';
import type { RuleSource } from '../../rules/model.ts';
import { decodeResource } from '../../rules/reader/resource.ts';
import { reviewSources } from '../../rules/review/review-sources.ts';
import type { RuleWarning } from '../../rules/review/rule-level.ts';
import { fieldPath } from '../../rules/rule-error.ts';
import { checkSources } from '../../rules/validate-sources.ts';
import type { ApiObject, Reading } from '../kubernetes/watch-protocol.ts';
import type { ConfigObject } from '../model/config-object.ts';
import type { LimiterReport } from '../model/fleet-snapshot.ts';
import { type RejectionReason, reasons } from '../model/reasons.ts';
import { shortened } from '../reconcile/conditions.ts';
import type { InForce, Rejection } from '../reconcile/rejections.ts';
import type { ObjectPreview, ReadRules } from '../reconcile/spec-reading.ts';

/** The information of this replica that reviews need. */
export interface AdmissionView {
  /** Returns undefined if the object has a class, namespace or labels that are not served here. */
  config(object: ApiObject): Reading<ConfigObject> | undefined;
  /** Does the same for a RateLimitOverride. */
  override(object: ApiObject): Reading<ConfigObject> | undefined;
  /** Returns undefined if the object is not in the namespace of the fleets. */
  fleet(object: ApiObject): Reading<unknown> | undefined;
  preview(object: ConfigObject): ObjectPreview;
  /** Limiters of the fleet that can never apply all rules with their settings, one for each different answer. */
  limited(fleet: string): readonly LimiterReport[];
  /** Returns whether all objects are known. */
  isListed(): boolean;
  /** The value of MERGE_DOMAIN_CONFIG. */
  mergeDomains: boolean;
}

/** Chosen: the maximum size of rules. Their review takes at most a nanosecond per byte. This is the size of about 800 typical rules. */
const maxReviewWork = 50_000_000;

const noWord: AdmissionAnswer = { allowed: true, warnings: [] };

/** Judges only changes of the spec. Changes of labels, finalizers and status always pass, and so do deletions. */
export function admissionAnswer(request: AdmissionRequest, view: AdmissionView): AdmissionAnswer {
  const { resource, subResource = '', object, oldObject } = request;
  if (object == null || subResource !== '' || resource.group !== group) return noWord;
  if (oldObject != null && isDeepStrictEqual(object.spec, oldObject.spec)) return noWord;
  const fleet = resource.resource === fleetPlural ? view.fleet(object) : undefined;
  if (fleet !== undefined && 'unreadable' in fleet) return rejected('Invalid', fleet.unreadable);
  return answerOn(readingOf(request, view), view);
}

/** Reads a RateLimitConfig or RateLimitOverride. Undefined for other kinds, and for objects that are not served here. */
function readingOf(
  { resource, object }: AdmissionRequest,
  view: AdmissionView,
): Reading<ConfigObject> | undefined {
  if (object == null || resource.group !== group) return undefined;
  if (resource.resource === plural) return view.config(object);
  return resource.resource === overridePlural ? view.override(object) : undefined;
}

function answerOn(reading: Reading<ConfigObject> | undefined, view: AdmissionView): AdmissionAnswer {
  if (reading === undefined) return noWord;
  if ('unreadable' in reading) return rejected('Invalid', reading.unreadable);
  const { rules, rejection, inForce, idle } = view.preview(reading.item);
  const mayPass = rejection !== undefined && reasons[rejection.reason].rejects.admission === 'warning';
  if (rejection !== undefined && !mayPass) return rejected(rejection.reason, rejection.problem);
  const warnings = mayPass ? [passingText(rejection, inForce)] : [];
  if (rejection === undefined && idle !== undefined)
    warnings.push(`NoMatchingRule: it would have no effect: ${idle}`);
  if (!view.isListed()) {
    warnings.push(
      'the control plane does not know yet which namespace has the domain: it has not read all objects',
    );
  }
  if (rules !== undefined) warnings.push(...warningsOf(rules, view));
  return { allowed: true, warnings: boundedWarnings(warnings) };
}

/** The text for an object that may be stored although the control plane would not accept it now. */
function passingText({ reason, problem }: Rejection, inForce: InForce | undefined): string {
  const isPart = reason === 'UnknownField' && inForce !== undefined;
  const then = isPart ? previewText(inForce) : 'it would not be served';
  return `${reason}: ${problem}: ${then}`;
}

function previewText({ generation, without }: InForce): string {
  if (without === undefined) return `generation ${generation} would stay in force`;
  return `it would be served without ${without.length === 1 ? 'it' : 'them'}`;
}

/** Returns whether newer schemas could change the answer. */
export function isDoubtful(request: AdmissionRequest, view: AdmissionView): boolean {
  const reading = readingOf(request, view);
  return reading !== undefined && 'item' in reading && view.preview(reading.item).isDoubtful === true;
}

function rejected(reason: RejectionReason, message: string): AdmissionAnswer {
  return { allowed: false, reason, message };
}

/** Returns the problems for which limiters would reject the object once it is served, because of their settings. */
function rejectionsOf(source: RuleSource, limited: readonly LimiterReport[]): string[] {
  const found: string[] = [];
  for (const { name, ruleSupport: support } of limited) {
    checkSources([source], { mergeDomains: true, support }, ({ code, path, text }) => {
      if (code === 'uncountable')
        found.push(`limiter ${name} would reject it: ${placeOf(path)}: ${manifestWords(text)}`);
    });
  }
  return found;
}

function placeOf(steps: RuleWarning['path']): string {
  return fieldPath(['spec', ...steps.map(fieldName)]);
}

function warningsOf({ resource: { bytes }, rules, fleet }: ReadRules, view: AdmissionView): string[] {
  const limited = view.limited(fleet);
  const isLarge = bytes.length * rules > maxReviewWork;
  const unreviewed = `${rules} rules are too many to check for probable mistakes here: run weir check`;
  if (isLarge && limited.length === 0) return [unreviewed];
  const source = decodeResource(bytes);
  const review = isLarge ? [unreviewed] : reviewOf(source, view.mergeDomains);
  return [...rejectionsOf(source, limited), ...review];
}

/** Returns the findings of `weir check`, without those that depend on other objects or on the setup of limiters. */
function reviewOf(source: RuleSource, mergeDomains: boolean): string[] {
  const unreported = new Set<RuleWarning['code']>(
    // A manifest states a limit of 0 explicitly. In a merged domain, other objects may name limits.
    mergeDomains ? ['limit-of-zero', 'replaces-nothing', 'replaces-unlimited'] : ['limit-of-zero'],
  );
  return reviewSources([source])
    .filter(({ code }) => !unreported.has(code))
    .map(warningText);
}

function warningText({ code, path, text, other }: RuleWarning): string {
  return `${code}: ${placeOf(path)}: ${manifestWords(text)}${other === undefined ? '' : ` (${placeOf(other.path)})`}`;
}

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
    /** Missing if the object is being deleted. */
    object: objectModel.nullish(),
    /** Missing if the object is being created. */
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

/** The body of the answer. The `reason` of a rejection becomes the reason of the error that kubectl prints. */
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

/** Longer warnings may be cut ("Dynamic Admission Control", Response): 256 characters each, 4,096 in total. */
const longestWarning = 256;
const maxWarnings = 15;

/** Bounds the texts as the API server does. With an unprintable character, the whole warning would be lost. */
export function boundedWarnings(texts: readonly string[]): string[] {
  const shown = texts.length <= maxWarnings ? texts : texts.slice(0, maxWarnings - 1);
  const rest = texts.length - shown.length;
  const bounded = shown.map((text) =>
    shortened(text.replace(/[^\p{L}\p{M}\p{N}\p{P}\p{S} ]/gu, '\uFFFD'), longestWarning),
  );
  return rest === 0 ? bounded : [...bounded, `and ${rest} more warnings: weir check reports them all`];
}
