/** A key's counter: how much is left, back to zero, some more. Or the counters of a domain, page by page. */
import { query } from './api.js';
import {
  answered,
  ask,
  badge,
  confirmChange,
  domainField,
  domainsOf,
  entriesField,
  field,
  html,
  meter,
  notes,
  nothing,
  submitted,
  table,
} from './parts.js';
import { addressOf } from './shell.js';
import {
  algorithmText,
  areNamed,
  calendarWords,
  duration,
  entries,
  entriesOf,
  entryTexts,
  limitWithUnit,
  linesOf,
  number,
  shown,
} from './text.js';

const sorts = { used: 'most used', left: 'least left', reset: 'ends first', key: 'key' };

/** @type {import('./shell.js').View} */
export const counters = {
  id: 'counters',
  label: 'Counters',
  draw(desk) {
    const { params } = desk;
    const question = {
      domain: params.get('domain') ?? '',
      entry: params.getAll('entry'),
      over: params.get('over') === 'true',
      sort: params.get('sort') ?? 'used',
    };
    const find = submitted((form) =>
      desk.go('counters', {
        domain: form.get('domain'),
        entry: linesOf(form.get('entries')),
        over: form.has('over'),
        sort: form.get('sort'),
      }),
    );
    return html`
      <form class="panel line" @submit=${find}>
        ${domainField(question.domain, domainsOf(desk.live('rules', 0).value))}
        ${entriesField(question.entry, 'One per line, in order; empty: all counters of the domain.', false)}
        ${field('Order', html`<select name="sort">${Object.entries(sorts).map(([value, label]) => html`<option value=${value} ?selected=${value === question.sort}>${label}</option>`)}</select>`)}
        <label class="check"><input type="checkbox" name="over" .checked=${question.over}> only over limit</label>
        <button class="does">Find</button>
      </form>
      ${question.domain === '' ? html`<p class="empty">Choose a domain, and entries if you know them.</p>` : found(desk, question)}`;
  },
};

/** @param {import('./shell.js').Desk} desk @param {any} question */
function found(desk, question) {
  const cursor = desk.params.get('cursor') ?? '';
  const isExact = question.entry.length > 0;
  const held = desk.live(`counters?${query({ ...question, cursor })}`, isExact ? 1_500 : 0);
  const { domain, entry } = question;
  const budgets = isExact
    ? desk.live(`budgets?${query({ domain, entry })}`, 1_500).value?.budgets
    : undefined;
  return answered(
    held,
    ({ counters: rows, cursor: next, scanned, notes: texts }) => html`
    ${notes(texts)}
    ${table('Counters', columns(desk), rows, isExact ? 'No rule counts these entries.' : next ? 'No counters in this part of the store.' : 'There are no more counters.')}
    ${
      isExact
        ? (budgets ?? []).map(reservations)
        : html`<p class="line"><small class="faint">${number(scanned)} keys scanned.</small>
      ${next ? html`<a class="button" href=${addressOf('counters', { ...question, cursor: next })}>Show more</a>` : html`<small class="faint">These are all.</small>`}</p>`
    }`,
  );
}

/** The reservations of a counter. Stores without reservations have none. @param {any} budget */
function reservations({ limit, reserved, open, oldestSeconds }) {
  if (open === 0) return nothing;
  return html`<p class="line">${limit.name ? html`${shown(limit.name)}: ` : nothing}<span><b>${number(reserved)}</b> of it reserved, by ${number(open)} open reservation${open === 1 ? '' : 's'}, the oldest ${duration(oldestSeconds)} old</span></p>`;
}

/** @param {import('./shell.js').Desk} desk @returns {import('./parts.js').Column[]} */
const columns = (desk) => [
  {
    label: 'Entries',
    cell: ({ domain, entries: list, key }) =>
      list?.length
        ? areNamed(list)
          ? html`<a href=${addressOf('counters', { domain, entry: entryTexts(list) })}>${entries(list)}</a>`
          : entries(list)
        : shown(key),
  },
  {
    label: 'Rule',
    cell: ({ rule, limitName, override, overrideEffect, certain, why }) =>
      html`${rule === null ? html`<span class="faint">no current rule</span>` : shown(rule)} ${limitName ? html`<span class="faint">${shown(limitName)}</span>` : nothing}${override ? badge('warn', overrideEffect === 'block' ? 'block' : 'override') : nothing}${certain === false ? html`<span class="badge plain" title=${why ?? ''}>uncertain</span>` : nothing}`,
  },
  {
    label: 'Used of limit',
    isNumber: true,
    cell: ({ used, mark, ...of }) =>
      html`<b class=${of.limit !== null && used > of.limit ? 'over' : ''}>${number(used)}</b> of ${limitWithUnit(of)} ${mark === undefined ? nothing : badge('warn', `${mark}%`)}${meter(used, of.limit)}`,
  },
  { label: 'Left', isNumber: true, cell: ({ left }) => number(left) },
  { label: 'Leased', isNumber: true, cell: ({ leased }) => number(leased) },
  {
    label: 'Window',
    cell: ({ window: { seconds, calendar, algorithm } }) =>
      html`${calendar ? calendarWords(calendar) : duration(seconds)}${algorithmText(algorithm) === '' ? nothing : html` <span class="faint">${algorithmText(algorithm)}</span>`}`,
  },
  { label: 'Ends in', isNumber: true, cell: ({ reset }) => duration(reset) },
  { label: 'Change', cell: (counter) => changes(desk, counter) },
];

/** @param {import('./shell.js').Desk} desk @param {any} counter */
function changes(desk, counter) {
  if (!areNamed(counter.entries ?? []))
    return html`<span class="faint" title="A hashed or shared value is not a single key">–</span>`;
  const { domain, entries: list } = counter;
  return html`<span class="buttons">
    <button @click=${() => reset(desk, counter)}>Reset …</button>
    <button @click=${() => grant(desk, counter)}>Grant …</button>
    <a class="button" href=${addressOf('overrides', { domain, entry: entryTexts(list) })}>Override …</a></span>`;
}

/** @param {import('./shell.js').Desk} desk @param {any} counter */
function reset(desk, { domain, entries: list, used, ...of }) {
  confirmChange({
    title: 'Reset this counter?',
    says: html`<p>${shown(domain)} ${entries(list)}</p><p>It has used <b>${number(used)}</b> of ${limitWithUnit(of)}, and starts again at 0 on every limiter, within a second. Its rule does not change.</p>`,
    verb: 'Reset',
    async act() {
      const answer = await ask('DELETE', `counters?${query({ domain, entry: entryTexts(list) })}`);
      const isPartly =
        answer.missing?.length > 0 || answer.limiters?.some((/** @type {any} */ { confirmed }) => !confirmed);
      desk.say(resetText(answer), isPartly ? 'warn' : 'good');
      desk.refresh();
    },
  });
}

/** Shows the limiters that confirmed, those that did not answer, and the commands that the store denied. @param {any} answer */
function resetText({ reset: count, limiters = [], missing = [] }) {
  const silent = limiters.filter((/** @type {any} */ { confirmed }) => !confirmed);
  return html`${count === 0 ? 'No counter was reset' : `Reset ${count} counter${count === 1 ? '' : 's'}`}; ${limiters.length - silent.length} of ${limiters.length} limiters confirmed it.
    ${silent.length === 0 ? nothing : html`<b>Silent:</b> ${silent.map((/** @type {any} */ { name }) => html`${shown(name)} `)}`}
    ${missing.map((/** @type {any} */ { command, message }) => html`<b>The store denies ${command}:</b> ${shown(message)} `)}`;
}

/** @param {import('./shell.js').Desk} desk @param {any} counter */
function grant(desk, { domain, entries: list, reset: ends, ...of }) {
  // The same when its answer got lost and the button is pressed again.
  const id =
    crypto.randomUUID?.() ?? `console-${Date.now().toString(36)}-${Math.random().toString(36).slice(2)}`;
  confirmChange({
    title: 'Grant more hits to this key?',
    says: html`<p>${shown(domain)} ${entries(list)}</p><p>In addition to its limit of ${limitWithUnit(of)}, until its window ends in ${duration(ends)}. Several grants add up.</p>`,
    fields: html`${field('Additional hits', html`<input name="grant" type="number" min="1" step="1" required .value=${'1000'}>`)}
      ${field('Reason', html`<input name="reason" required maxlength="256" autocomplete="off">`, 'Shown in the log and in the list of overrides.')}`,
    verb: 'Grant',
    async act(form) {
      const amount = Number(form.get('grant'));
      await ask('POST', 'overrides', {
        domain,
        match: entriesOf(entryTexts(list)),
        grant: amount,
        reason: form.get('reason'),
        id,
      });
      desk.say(html`Granted ${number(amount)} more to ${entries(list)}.`);
      desk.refresh();
    },
  });
}
