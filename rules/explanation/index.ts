/** Why a descriptor finds the rule that it finds. */
export {
  type ExplainedStep,
  type Explanation,
  explainDescriptor,
  type Outcome,
  ruleName,
} from '../review/explain-descriptor.ts';
