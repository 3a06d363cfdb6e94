/** The row of a field of the rule language: its kind, its bounds, the fields that it excludes, and its description. */
import type { RuleAlgorithm } from '../algorithms/algorithm.ts';
import type { RuleCapability } from './capabilities.ts';

/** The content of a field. `FieldValues` in `model.ts` has the type of each kind. */
export type FieldKind =
  | 'text'
  | 'unit'
  | 'boolean'
  | 'uint32'
  | 'requests'
  | 'algorithm'
  | 'unitOfHits'
  | 'percents'
  | 'day'
  | 'calendar'
  | 'share'
  | 'reserve'
  | 'metadata'
  | 'names'
  | 'entries'
  | 'limit'
  | 'limits'
  | 'rules';

/** The facts about a value: its bounds, and the words for people. Texts are in the words of manifests. */
export interface ValueFacts {
  /** A sentence or two. */
  readonly description: string;
  /** One of the field's words as rule files spell it, or a value as manifests spell it. */
  readonly example: unknown;
  readonly isRequired?: true;
  /** Null counts as not written in objects, too. */
  readonly mayBeNull?: true;
  /** The default in an object. The API server writes it where the field is missing. */
  readonly default?: string;
  /** The smallest number, the fewest characters of a text, the fewest elements of a list. */
  readonly min?: number;
  /** The largest number, the most characters, elements or levels. */
  readonly max?: number;
  /** The pattern that the whole text must match. Only the API server and editors check it; the validator has its own messages. */
  readonly pattern?: string;
  /** The form of a text that matches `pattern`, in the words of the reader of manifests. */
  readonly form?: string;
  /** A name for the form of a text in JSON Schema. */
  readonly format?: string;
  /** The texts that it may be, as rule files spell them. */
  readonly words?: readonly string[];
  /** Describes an element of a list. */
  readonly element?: string;
  /** The fields that hold the value in xDS messages, if there is no field of the same name. */
  readonly sentAs?: readonly string[];
}

interface Withheld {
  readonly withhold: RuleCapability;
}

export interface FieldRow extends ValueFacts {
  readonly kind: FieldKind;
  /** The property has no default: it is undefined where the field is not written. */
  readonly isOptional?: true;
  /** The field spells another property of the rule or limit, and has none of its own. */
  readonly isSpelling?: true;
  /**
   * True if rule files of envoyproxy/ratelimit do not have the field. A misplaced field of this kind is an error, and a misplaced
   * field of envoyproxy/ratelimit is a warning.
   */
  readonly isOwn?: true;
  /**
   * The behavior of a limiter that does not know the field, as envoyproxy/ratelimit does not know it over xDS: it ignores the
   * field, or the control plane withholds the rules from it, because it would count other limits. Then a limiter needs the
   * capability for every value but the default. Absent: every limiter knows the field. Fields that 0.1.0 does not have are ignored:
   * see docs/versions.md.
   */
  readonly ifUnknown?: 'ignore' | Withheld;
  /** The same for numbers above 4294967295, for which xDS has another field. */
  readonly ifWide?: Withheld;
  /** The error if an object lacks the field, unless another field is true. */
  readonly ifMissing?: { readonly unless: string; readonly text: string };
  /** Fields that the field replaces. None of them may be present with it. */
  readonly insteadOf?: readonly string[];
  /** Fields of which one must be present with it. */
  readonly needs?: readonly string[];
  /** The algorithms that it is for. */
  readonly isFor?: (algorithm: RuleAlgorithm) => boolean;
  /** Describes the field within the words for a rule or limit, if its value differs from the default; `{}` stands for the value. */
  readonly phrase?: string;
  /** The effect of a change on callers: if the field has another value now, and if it is no longer written. */
  readonly change?: { readonly set: string; readonly unset: string };
  /** The effect of a change on the rules below. */
  readonly changeBelow?: string;
  /**
   * The field's effect on quota clients: why no part of such a rule can be assigned, that all requests pass, or that the field
   * sets the form of assignments.
   */
  readonly forQuotaClients?: { readonly unassignable: string } | 'pass' | 'form';
  /** The value that applies if the field is not written, unless it has words or is a boolean. */
  readonly unwritten?: string;
  /** The facts of a limit among several, in place of these. */
  readonly amongSeveral?: { readonly description: string; readonly example: unknown };
}
export type FieldRows = Readonly<Record<string, FieldRow>>;
