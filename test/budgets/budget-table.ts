/** The report of `npm run budgets` as Markdown, and what is wrong with it. Pure. */
import type { BudgetFigures } from './budget-ledger.ts';

const rows: readonly [name: string, cell: (figures: BudgetFigures) => string][] = [
  [
    'streams, and how many simultaneously',
    ({ streams, maxAtOnce }) => `${count(streams)}, ${count(maxAtOnce)}`,
  ],
  [
    'streams answered, over limit, failed',
    ({ answered, refused, died }) => [answered, refused, died].map(count).join(', '),
  ],
  ['calls retried', ({ retries }) => count(retries.limiterAway + retries.storeAway)],
  ['total budget, in tokens', ({ limit }) => count(limit)],
  ['charged', ({ charged }) => count(charged)],
  ['charged beyond a reservation, or after it expired', ({ allowed }) => count(allowed)],
  ['**overspent**', ({ overspent }) => `**${count(overspent)}**`],
  [
    '**budgets that were overspent**',
    ({ overspentBudgets, budgets }) => `**${count(overspentBudgets)} of ${count(budgets)}**`,
  ],
  ['still reserved after the TTL', ({ leaked }) => (leaked === undefined ? '–' : count(leaked))],
  ['tokens counted twice', ({ countedTwice }) => count(countedTwice)],
  ['tokens lost', ({ lost }) => count(lost)],
];

/** A column for each run. */
export function budgetTable(runs: readonly BudgetFigures[]): string {
  return [
    line(['', ...runs.map(({ way }) => way)]),
    line(['---', ...runs.map(() => '---:')]),
    ...rows.map(([name, cell]) => line([name, ...runs.map(cell)])),
    '',
  ].join('\n');
}

/** What must not be of a run that reserves; `unreplicated`: tokens that a store may lose with its master. */
export function budgetBreaches(figures: BudgetFigures, unreplicated = 0): string[] {
  const bounds = {
    overspent: unreplicated,
    leaked: 0,
    countedTwice: unreplicated,
    lost: unreplicated,
  };
  const breaches = Object.entries(bounds).flatMap(([name, max]) => {
    const value = figures[name as keyof typeof bounds] ?? 0;
    return value > max ? [`${name}: ${value}, and ${max} is the most`] : [];
  });
  const { overspentBudgets, answered, streams } = figures;
  if (overspentBudgets > 0 && unreplicated === 0) breaches.push(`${overspentBudgets} budgets were overspent`);
  if (answered < streams / 2) breaches.push(`only ${answered} of ${streams} streams were answered`);
  const { limitersEnded, died, retries } = figures;
  const happened = { died, limitersEnded, ...retries };
  for (const [name, times] of Object.entries(happened))
    if (times === 0) breaches.push(`${name}: none in this run`);
  return breaches;
}

function count(value: number): string {
  return value.toLocaleString('en-US');
}

function line(texts: readonly string[]): string {
  return `| ${texts.join(' | ')} |`;
}
