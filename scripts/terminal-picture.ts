/**
 * Draws a terminal as an SVG that repeats its animation wherever pictures are shown, including GitHub. It uses only CSS and no
 * script. Readers who prefer reduced motion see the final state at once, and so do viewers without animations.
 */

export interface TerminalLine {
  /** A `comment` is typed like a command, and does nothing. */
  kind: 'command' | 'output' | 'comment';
  text: string;
}

/** One command with its output and its real duration. */
export interface TerminalStep {
  lines: readonly TerminalLine[];
  /** From the end of typing to the first line of output, in ms. */
  waitMs: number;
  /** The time to read it, in ms. */
  restMs: number;
}

export interface TerminalPicture {
  title: string;
  /** The text for people who cannot see the picture. */
  description: string;
  columns: number;
  steps: readonly TerminalStep[];
}

const keyMs = 15;
/** The time for which the end stays visible before the animation starts again. */
const endMs = 8_000;
/** The width of a character in the fonts below. `textLength` scales other fonts to it. */
const charWidth = 7.8;
const lineHeight = 19;
const margin = 18;
const prompt = '$ ';

interface Row {
  kind: TerminalLine['kind'];
  text: string;
  atMs: number;
  /** The time at which the last character of a typed row appears. */
  typedMs: number;
}

/** Returns the SVG. Rows that are too long continue in the next row, as in a terminal. */
export function drawTerminal({ title, description, columns, steps }: TerminalPicture): string {
  const { rows, totalMs } = timedRows(steps, columns);
  const width = Math.ceil(columns * charWidth + 2 * margin);
  const height = rows.length * lineHeight + 2 * margin;
  const percent = (ms: number): string => `${((100 * ms) / totalMs).toFixed(2)}%`;
  const frames = rows.map(
    ({ atMs, typedMs }, n) =>
      `@keyframes s${n}{0%{opacity:0}${percent(atMs)},100%{opacity:1}}` +
      (typedMs === atMs
        ? ''
        : `@keyframes t${n}{0%,${percent(atMs)}{transform:scaleX(1)}${percent(typedMs)},100%{transform:scaleX(0)}}`),
  );
  const drawn = rows.map((row, n) => drawRow(row, n));
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" role="img" aria-labelledby="title desc">
<title id="title">${escaped(title)}</title>
<desc id="desc">${escaped(description)}</desc>
<style>
.screen{fill:#f6f8fa;stroke:#d0d7de}.cover{fill:#f6f8fa;transform:scaleX(0);transform-box:fill-box;transform-origin:right}
text{font:13px ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace;fill:#1f2328;white-space:pre}
.command{font-weight:600}.prompt{fill:#1a7f37}.comment{fill:#57606a}.no{fill:#cf222e}
@media (prefers-color-scheme:dark){.screen,.cover{fill:#0d1117}.screen{stroke:#30363d}text{fill:#e6edf3}.prompt{fill:#3fb950}.comment{fill:#9198a1}.no{fill:#ff7b72}}
@media (prefers-reduced-motion:no-preference){
.row,.cover{animation-duration:${totalMs}ms;animation-iteration-count:infinite}.row{animation-timing-function:step-end}
${frames.join('\n')}
${rows.map(({ atMs, typedMs, text }, n) => `#r${n}{animation-name:s${n}}${typedMs === atMs ? '' : `#c${n}{animation-name:t${n};animation-timing-function:steps(${text.length})}`}`).join('\n')}
}
</style>
<rect class="screen" x="0.5" y="0.5" width="${width - 1}" height="${height - 1}" rx="8"/>
${drawn.join('\n')}
</svg>
`;
}

/** Returns the rows of such a picture, in the order in which they were drawn. */
export function rowsOfPicture(svg: string): string[] {
  return [...svg.matchAll(/<text class="row[^>]*>(.*)<\/text>/g)].map(([, inner = '']) =>
    unescaped(inner.replaceAll(/<[^>]*>/g, '')),
  );
}

function timedRows(steps: readonly TerminalStep[], columns: number): { rows: Row[]; totalMs: number } {
  const rows: Row[] = [];
  const typedBefore = new Set<string>();
  let ms = 300;
  for (const { lines, waitMs, restMs } of steps) {
    for (const { kind, text } of lines) {
      // The arrow key repeats the previous command.
      const isTyped = kind !== 'output' && !typedBefore.has(text);
      if (isTyped) typedBefore.add(text);
      if (kind === 'output' && rows.at(-1)?.kind !== 'output') ms += waitMs;
      const whole = kind === 'command' ? prompt + text : text;
      for (let at = 0; at === 0 || at < whole.length; at += columns) {
        const part = whole.slice(at, at + columns);
        const typedMs = isTyped ? ms + part.length * keyMs : ms;
        rows.push({ kind, text: part, atMs: ms, typedMs });
        ms = typedMs;
      }
    }
    ms += restMs;
  }
  return { rows, totalMs: Math.round(ms + endMs) };
}

function drawRow({ kind, text, atMs, typedMs }: Row, n: number): string {
  const y = margin + (n + 1) * lineHeight - 5;
  const isPrompted = kind === 'command' && text.startsWith(prompt);
  const inner = isPrompted
    ? `<tspan class="prompt">${prompt}</tspan>${escaped(text.slice(prompt.length))}`
    : marked(text, kind);
  const drawn = `<text class="row ${kind}" id="r${n}" x="${margin}" y="${y}" xml:space="preserve">${inner}</text>`;
  if (typedMs === atMs) return drawn;
  const from = isPrompted ? prompt.length : 0;
  const x = (margin + from * charWidth).toFixed(1);
  const width = ((text.length - from + 1) * charWidth).toFixed(1);
  return `${drawn}<rect class="cover" id="c${n}" x="${x}" y="${y - 14}" width="${width}" height="${lineHeight}"/>`;
}

/** Requests over limit are highlighted. */
function marked(text: string, kind: Row['kind']): string {
  if (kind !== 'output') return escaped(text);
  return escaped(text).replaceAll(/\b(429|OVER_LIMIT|refused)\b/g, '<tspan class="no">$1</tspan>');
}

const entities: Record<string, string> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;' };

function escaped(text: string): string {
  return text.replaceAll(/[&<>"]/g, (character) => entities[character] as string);
}

function unescaped(text: string): string {
  return Object.entries(entities)
    .reverse()
    .reduce((sofar, [character, entity]) => sofar.replaceAll(entity, character), text);
}
