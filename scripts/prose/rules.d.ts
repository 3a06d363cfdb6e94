/** A textlint rule, which has no types of its own. */
declare module 'textlint-rule-terminology' {
  const rule: import('@textlint/kernel').TextlintRuleModule;
  export default rule;
}
