/** The page of a limiter. */
import { assignments } from './assignments.js';
import { counters } from './counters.js';
import { explain } from './explain.js';
import { now } from './now.js';
import { overLimit } from './over-limit.js';
import { overrides } from './overrides.js';
import { badge, html } from './parts.js';
import { rules } from './rules.js';
import { startConsole } from './shell.js';
import { status } from './status.js';
import { measured, number, shown } from './text.js';

/** The summary in the header of every view. @param {import('./shell.js').Desk} desk */
function summary(desk) {
  const { value } = desk.live('status', 2_000);
  if (value === undefined) return '';
  const { limiter, ready, failing, store, rates, rules } = value;
  return html`<b>${shown(limiter.name)}</b>
    ${ready ? badge('good', 'ready') : badge('bad', `not ready: ${failing.join(', ')}`)}
    ${storeBadge(store)}
    ${rules.lastLoadFailed ? badge('bad', 'last load failed') : ''}
    ${rules.overrides > 0 ? badge('warn', `${rules.overrides} override${rules.overrides === 1 ? '' : 's'}`) : ''}
    <span class="rate"><b>${number(rates.decisions)}</b>/s, <b class=${rates.limited > 0 ? 'over' : ''}>${number(rates.limited)}</b>/s limited <small class="faint">${measured(rates)}</small></span>`;
}

/** @param {any} store */
function storeBadge({ type, breaker, connected }) {
  if (breaker === 'open') return badge('bad', `${type}: circuit breaker open`);
  return connected ? badge('good', type) : badge('bad', `${type}: away`);
}

startConsole({
  kind: 'limiter',
  views: [now, rules, counters, overrides, assignments, explain, overLimit, status],
  summary,
});
