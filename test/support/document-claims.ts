import { expect } from 'vitest';

import { DecidedDocument } from './decided-document.ts';
import type { FencedBlock } from './fenced-blocks.ts';

/**
 * Loads rules and holds them to what blocks of a document say about them, in their order. `decisions` stands alone,
 * or before settings (`SHADOW_MODE=true`): other ones than before start a limiter anew. `decisions without shadow_mode`
 * takes that line out of the rules of the running one. `statistics` are those of what was asked last.
 */
export function expectClaims(rules: string, claims: readonly FencedBlock[]): void {
  expect(claims.map(({ language }) => language)).toContain('decisions');
  let running: DecidedDocument | undefined;
  let settingsText: string | undefined;
  for (const claim of claims) {
    const removed = /^without (\S+)$/.exec(claim.info)?.[1];
    if (removed !== undefined) removeLine(running, rules, removed);
    else if (claim.language === 'decisions' && claim.info !== settingsText) {
      settingsText = claim.info;
      running = new DecidedDocument(rules, settings(claim.info));
    }
    if (running === undefined) throw new Error(`line ${claim.line}: nothing was asked before`);
    if (claim.language === 'decisions') running.expectDecisions(claim.text);
    else if (claim.language === 'statistics') running.expectStatistics(claim.text);
    else throw new Error(`line ${claim.line}: what is "${claim.language}"?`);
  }
}

/** `A=b C=d`, as it stands behind the language of a block. */
export function settings(info: string): Record<string, string> {
  const pairs = info.split(' ').filter((pair) => pair !== '');
  for (const pair of pairs) expect(pair).toMatch(/^[A-Z_]+=\S+$/);
  return Object.fromEntries(pairs.map((pair) => pair.split('=') as [string, string]));
}

function removeLine(running: DecidedDocument | undefined, rules: string, field: string): void {
  const line = new RegExp(`^ *${field}: true\n`, 'm');
  expect(rules).toMatch(line);
  running?.changeRules(rules.replace(line, ''));
}
