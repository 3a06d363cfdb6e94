/** The report of `npm run faults` as Markdown. Pure. */
import type { FaultCase } from './fault-case.ts';
import type { FaultReport } from './fault-run.ts';

export interface FaultRow {
  faultCase: Pick<FaultCase, 'name' | 'what'>;
  report: Pick<FaultReport, 'figures' | 'heapGrowthBytes'>;
}

const columns = [
  'case',
  'sent',
  'answered',
  'errors',
  'slowest ms',
  'p99 ms before',
  'p99 ms while open',
  'over-admitted',
  'lost',
  'counted twice',
  'heap growth KiB',
];

export function faultTable(rows: readonly FaultRow[]): string {
  return [
    line(columns),
    line(columns.map((_, i) => (i === 0 ? '---' : '---:'))),
    ...rows.map(({ faultCase, report }) => line(cells(faultCase.name, report))),
    '',
    ...rows.map(({ faultCase }) => wrapped(`- \`${faultCase.name}\`: ${faultCase.what}.`)),
    '',
  ].join('\n');
}

/** `document` with the text between the two markers of a script replaced; throws when they are not there. */
export function withTable(document: string, table: string, script: 'faults' | 'attacks' | 'budgets'): string {
  const tableStart = `<!-- written by npm run ${script} -->`;
  const tableEnd = `<!-- end of what npm run ${script} writes -->`;
  const [start, end] = [document.indexOf(tableStart), document.indexOf(tableEnd)];
  if (start < 0 || end < start) throw new Error(`the document has no line ${tableStart} before ${tableEnd}`);
  return `${document.slice(0, start + tableStart.length)}\n\n${table}\n${document.slice(end)}`;
}

function cells(name: string, { figures, heapGrowthBytes }: FaultRow['report']): string[] {
  const { sent, answered, errors, slowestMs, quietP99Ms, openP99Ms, overAdmitted, lost, countedTwice } =
    figures;
  return [
    `\`${name}\``,
    count(sent),
    count(answered),
    count(errors),
    count(Math.round(slowestMs)),
    milliseconds(quietP99Ms),
    milliseconds(openP99Ms),
    ...[overAdmitted, lost, countedTwice, Math.round(heapGrowthBytes / 1024)].map(count),
  ];
}

function milliseconds(value: number | undefined): string {
  return value === undefined ? '–' : value.toFixed(1);
}

/** An item of a list in lines of at most 138 characters. */
function wrapped(item: string): string {
  const lines = [''];
  for (const word of item.split(' ')) {
    const longer = lines.at(-1) === '' ? word : `${lines.at(-1)} ${word}`;
    if (longer.length <= 138) lines.splice(-1, 1, longer);
    else lines.push(`  ${word}`);
  }
  return lines.join('\n');
}

function count(value: number): string {
  return value.toLocaleString('en-US');
}

function line(texts: readonly string[]): string {
  return `| ${texts.join(' | ')} |`;
}
