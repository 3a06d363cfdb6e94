import { describe, expect, it } from 'vitest';
import { projectRoot } from '../commands.ts';
import { compareCounts, countsOf } from '../prose.ts';
import { findingsOf, kinds } from './lint.ts';
import { countWords, sentencesOf } from './sentence-rules.ts';
import {
  asidesIn,
  descriptionsIn,
  failuresIn,
  helpParagraphs,
  messagesIn,
  messageTexts,
  notesIn,
} from './texts.ts';

async function kindsIn(markdown: string, source = 'docs/a.md'): Promise<string[]> {
  return (await findingsOf([{ source, markdown }])).map(({ kind, line }) => `${line} ${kind}`);
}

const words = (count: number) => `It has${' o,'.repeat(count - 2)}.`;

describe('the linter of prose', () => {
  it('allows sentences of 30 words, over lines and with code as one word', async () => {
    expect(await kindsIn(`${words(30)}\n${words(30)}`)).toEqual([]);
    expect(await kindsIn(`# T\n\n${words(31).replaceAll(' o, o', '\no, o')}`)).toEqual(['3 long sentence']);
    expect(await kindsIn(`${words(29).slice(0, -1)} \`a b c d e\`.`)).toEqual([]);
    expect(await kindsIn(`${words(20)} \`a\` is${words(20)}`)).toEqual([]);
  });

  it('allows cells of tables of 30 words', async () => {
    const table = (cell: string) => `| a | b |\n|---|---|\n| c | ${cell} |`;
    expect(await kindsIn(table(words(30)))).toEqual([]);
    expect(await kindsIn(table(words(31)))).toEqual(['3 long cell']);
  });

  it('finds long lines outside of tables, code and links', async () => {
    const long = 'abcdefghijklm, '.repeat(11).trim();
    expect(await kindsIn(`Short.\n${long}.`)).toEqual(['1 long line']);
    expect(await kindsIn(`\`\`\`\n${long}\n\`\`\``)).toEqual([]);
    expect(
      await kindsIn(`[a](${long.replaceAll(', ', '-')}.md) <https://${long.replaceAll(', ', '-')}>`),
    ).toEqual([]);
    expect(await kindsIn(`[a](b.md) ${long}.`)).toEqual(['1 long line']);
    expect(await kindsIn(long, 'weir check --help')).toEqual([]);
  });

  it.each([
    ['The limiter tells it.', 'retired word'],
    ['It mends nothing.', 'retired word'],
    ['Ten of which two pass.', 'word by sense'],
    ['A rate limiting service.', 'terminology'],
    ['Its behaviour.', 'spelling'],
    ['It uses 5 % less.', 'spelling'],
    ['The file is read.', 'passive voice'],
    ['It is very fast.', 'filler'],
    ['It reads the The file.', 'repeated words'],
    ['It stays in force in force, and ends.', 'repeated words'],
  ])('finds in "%s": %s', async (text, kind) => {
    expect(await kindsIn(text)).toEqual([`1 ${kind}`]);
  });

  const british = [
    'organise generalised visualising localisation virtualisation memorises tokeniser analysed paralyse',
    'behaviour colours favoured rumour endeavour misbehaviour neighbouring vapour harbour',
    'labelled unlabelled cancelling modelled channelled fuelled totalling levelled dialled traveller signaller',
    'licence licences defence offence practise centre metres kilometre grey catalogue dialogue programme',
    'judgement artefact queueing ageing fulfilment enrolment skilful focussed amongst whilst towards afterwards',
  ].flatMap((list) => list.split(' '));
  const american = [
    'otherwise stepwise raise raised praise noise promise compromised premises exercise advise revised devise',
    'precise concise expertise enterprise surprise comprises arise rises wise supervised advertised disguise',
    'your yours hour hours hourly four pour tour source course contour detour journal resources hourglass',
    'called calling caller installed fillers pulled polling rolled scrolling controlled controller spelled killed',
    'billing stalled skilled selling teller falling smaller fuller taller compelled excelled refilled uninstalled',
    'license defense practice center meter parameters diameter theaters analysis basis fulfill enrolled among',
    'programmed programmer dialog label labels canceled cancellation targeted focused exists visited',
  ].flatMap((list) => list.split(' '));

  it('rejects British spelling by its endings, and no American word', async () => {
    const found = async (words: string[]) => {
      const lines = await findingsOf([
        { source: 'docs/a.md', markdown: words.map((word) => `A ${word} c.`).join('\n\n') },
      ]);
      return lines.filter(({ kind }) => kind === 'spelling').map(({ line }) => words[(line - 1) / 2]);
    };
    expect(await found(british)).toEqual(british);
    expect(await found(american)).toEqual([]);
    expect(await found(american.map((word) => word.toUpperCase()))).toEqual([]);
  });

  it('leaves code, and words that others contain', async () => {
    expect(await kindsIn('Use `told` and `behaviour`. A deary office-like recommendation.')).toEqual([]);
  });

  it('compares numbers with the recorded ones', async () => {
    const counts = countsOf(await findingsOf([{ source: 'a', markdown: 'It tells and tells.' }]));
    expect(counts['retired word']).toBe(2);
    const none = countsOf([]);
    expect(Object.keys(none)).toEqual(kinds);
    // No record allows an error.
    expect(compareCounts(counts, { ...none, ...counts })).toEqual({ rose: ['retired word'], fell: [] });
    const passive = { ...none, 'passive voice': 2 };
    expect(compareCounts(passive, none)).toEqual({ rose: ['passive voice'], fell: [] });
    expect(compareCounts(passive, passive)).toEqual({ rose: [], fell: [] });
    expect(compareCounts(none, passive)).toEqual({ rose: [], fell: ['passive voice'] });
  });
});

describe('texts for readers', () => {
  it('are not those that schemas/frozen-names.json lists', () => {
    const lines = messageTexts(projectRoot).find(({ source }) => source === 'limiter/log/lines.ts');
    expect(lines?.markdown).toContain('Connected to the memcached node again');
    expect(lines?.markdown).not.toContain('failed to refresh memcache hosts');
  });

  it('are headings and link texts', async () => {
    expect(await kindsIn('# Its behaviour\n\nSee [its colours](a.md).')).toEqual([
      '1 spelling',
      '3 spelling',
    ]);
  });

  it('are alternative texts of images, and HTML', () => {
    const markdown = [
      '![A red line](a.svg) <img alt="A green line" src="b.svg">',
      '<details><summary>More <b>text</b></summary></details>',
      '```html\n<p>code</p>\n```\n`![code](c)`',
    ].join('\n\n');
    expect(asidesIn(markdown).split('\n\n')).toEqual(['A red line', 'A green line', 'More text']);
  });

  it('are the notes of the chart', () => {
    const notes = [
      '{{- if .Values.a }}\nThe limiter {{ .name }} has {{ .Values.b | quote }}{{ if .c }}, with TLS{{ end }}:',
      '  kubectl get pods\n{{ end }}',
      'kubectl apply -f - <<END\nkind: A thing that is no prose\nEND',
      'Another text of the notes.',
    ].join('\n\n');
    expect(notesIn(notes).split('\n\n')).toEqual([
      'The limiter `x` has `x`, with TLS:',
      'Another text of the notes.',
    ]);
  });

  it('are the titles and legends of a dashboard, and messages of validation rules', () => {
    const panel = {
      title: 'Hits by domain',
      targets: [{ legendFormat: 'near_limit' }, { legendFormat: 'let pass' }],
    };
    const rules = [{ rule: 'self.a', message: 'a is needed with b' }];
    expect(descriptionsIn({ panel, named: { legendFormat: '{{job}} all' }, rules })).toEqual([
      'Hits by domain',
      'let pass',
      'a is needed with b',
    ]);
  });

  it('are the descriptions in a schema', () => {
    const schema = {
      description: 'One.',
      properties: { a: { description: 'Two.', type: 'string' } },
      list: [{ summary: 'Three.' }],
    };
    expect(descriptionsIn(schema)).toEqual(['One.', 'Two.', 'Three.']);
  });

  it('are the messages with which the chart rejects values', () => {
    const template =
      '{{- fail "a.b is set: remove it" -}} {{- fail (printf "%s has \\"%d\\"" .a .b) -}} {{ print "no message" }}';
    expect(failuresIn(template)).toEqual(['`x` is set: remove it', '`x` has "`x`"']);
  });

  it('are the messages of a source file', () => {
    const source = [
      "import 'not a message at all';",
      "log.warn('The file is not there', { a: 'x y' });",
      'const t = `No rules for $',
      '{a} in it`;',
    ];
    const text = source.slice(0, 3).join('\n') + source[3];
    expect(messagesIn(text, 'lines.ts')).toEqual(['The file is not there', 'No rules for `x` in it']);
  });

  it('are the texts between tags, and none of scripts and help texts', () => {
    const source = [
      'const page = html`<p class="empty">No rules are <b>loaded</b> yet.</p><p>Try the page again later.</p>`;',
      'const script = `\\nlocal a = 1\\nif a then return a end\\n`;',
      "const usage = 'Usage: weir a\\n\\nDoes more than three things.';",
      "const hint = 'write - key: <name> or { unit: minute }';",
    ].join('\n');
    expect(messagesIn(source, 'page.ts')).toEqual([
      'No rules are loaded yet.',
      'Try the page again later.',
      'write - key: \\<name> or \\{ unit: minute }',
    ]);
  });

  it('are the paragraphs and the flags of a help text', () => {
    const help =
      'Usage: weir a [flags]\n\nDoes it. Takes\nmuch.\n\n  --flag <x>   one\n               thing\n  -q, --quiet  less\n\n  weir a --flag b\n\nExit status: 0.\n';
    expect(
      helpParagraphs(help)
        .split(/\n{2,}/)
        .filter(Boolean),
    ).toEqual(['Does it. Takes much.', 'one thing', 'less', 'Exit status: 0.']);
  });

  it('count words and sentences as a reader does', () => {
    expect(countWords('a - b, `c` 100 %')).toBe(4);
    expect(sentencesOf('It is v1.2, e.g. this. And that?')).toHaveLength(2);
  });
});
