import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { caseCount } from '../test/support/property-cases.ts';
import { drawTerminal, rowsOfPicture, type TerminalLine } from './terminal-picture.ts';

function draw(lines: TerminalLine[], columns = 40): string {
  return drawTerminal({
    title: 'a <title>',
    description: 'x & y',
    columns,
    steps: [{ lines, waitMs: 100, restMs: 1_000 }],
  });
}

describe('drawTerminal', () => {
  it('shows every character, and wraps where a terminal would', () => {
    const line = fc.record({
      kind: fc.constantFrom<TerminalLine['kind']>('command', 'output', 'comment'),
      text: fc.stringMatching(/^[ -~]{0,90}$/),
    });
    fc.assert(
      fc.property(fc.array(line, { maxLength: 8 }), (lines) => {
        const wrapped = lines.flatMap(({ kind, text }) => {
          const whole = kind === 'command' ? `$ ${text}` : text;
          return whole === '' ? [''] : (whole.match(/.{1,40}/g) as string[]);
        });
        expect(rowsOfPicture(draw(lines))).toEqual(wrapped);
      }),
      { numRuns: caseCount(200) },
    );
  });

  it('shows all of it to people that prefer no motion: only animations hide parts', () => {
    const svg = draw([{ kind: 'command', text: 'weir top' }]);
    const [still = '', moving = ''] = svg.split('@media (prefers-reduced-motion:no-preference)');
    expect(still).not.toMatch(/opacity|animation|keyframes/);
    expect(moving).toMatch(/@keyframes s0\{0%\{opacity:0\}/);
  });

  it('types a command once, and brings it back at once', () => {
    const again: TerminalLine[] = [
      { kind: 'command', text: 'weir top' },
      { kind: 'output', text: 'nobody' },
      { kind: 'command', text: 'weir top' },
    ];
    expect(draw(again).match(/class="cover"/g)).toHaveLength(1);
  });
});
