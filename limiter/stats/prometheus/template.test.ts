// biome-ignore-all lint/suspicious/noTemplateCurlyInString: references to what was matched
import { describe, expect, it } from 'vitest';
import { Template } from './mapping-rules.ts';

function expanded(text: string): string {
  const groups: Record<string, string> = { 0: 'all', 1: 'one', 2: 'two', word: 'named' };
  return new Template(text).expand((reference) => groups[reference]);
}

describe('Template', () => {
  for (const [text, wanted] of [
    ['plain', 'plain'],
    ['$1', 'one'],
    ['a_${1}_b_$2', 'a_one_b_two'],
    ['$1$2', 'onetwo'],
    ['$0', 'all'],
    ['${word}!', 'named!'],
    ['$9', ''],
    ['$1_total', ''],
    ['${1}_total', 'one_total'],
    ['cost $$5', 'cost $5'],
    ['$', '$'],
    ['${', '${'],
    ['', ''],
  ] as const) {
    it(`makes ${JSON.stringify(wanted)} of ${JSON.stringify(text)}`, () => {
      expect(expanded(text)).toBe(wanted);
    });
  }

  it('takes dollar signs of what was matched as they are', () => {
    expect(new Template('$1').expand(() => '$2')).toBe('$2');
  });
});
