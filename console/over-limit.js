/** Who was rejected, by which rule, with what counts: the memory of this limiter. */
import { query } from './api.js';
import {
  answered,
  badge,
  domainField,
  domainsOf,
  entriesField,
  field,
  html,
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
  entryTexts,
  limitWithUnit,
  linesOf,
  moment,
  number,
  shown,
} from './text.js';

/** @param {import('./shell.js').Desk} _desk @returns {(import('./parts.js').Column & { isShort?: boolean })[]} */
export const rejectionColumns = (_desk) => [
  { label: 'At', isShort: true, cell: ({ at }) => moment(at) },
  {
    label: 'Entries',
    isShort: true,
    cell: ({ domain, entries: list, key }) =>
      html`<span class="faint">${shown(domain)}</span> ${list?.length ? (areNamed(list) ? html`<a href=${addressOf('counters', { domain, entry: entryTexts(list) })}>${entries(list)}</a>` : entries(list)) : shown(key)}`,
  },
  {
    label: 'Rule',
    cell: ({ rule, limitName, override, blocked }) =>
      html`${shown(rule)}${limitName ? html` <span class="faint">${shown(limitName)}</span>` : nothing}${override ? badge('warn', blocked ? 'block' : 'override') : nothing}`,
  },
  {
    label: 'Used of limit',
    isShort: true,
    isNumber: true,
    cell: ({ used, blocked, ...of }) =>
      blocked ? 'blocked' : html`<b>${number(used)}</b> of ${limitWithUnit(of)}`,
  },
  {
    label: 'Window',
    cell: ({ window: of, algorithm }) =>
      html`${of?.calendar ? calendarWords(of.calendar) : of?.seconds === undefined ? '–' : duration(of.seconds)}${algorithmText(algorithm) === '' ? nothing : html` <span class="faint">${algorithmText(algorithm)}</span>`}`,
  },
  { label: 'Times', isShort: true, isNumber: true, cell: ({ count }) => number(count) },
  { label: 'Rules', cell: ({ rulesVersion }) => shown(rulesVersion) },
  {
    label: 'Last request',
    cell: ({ requestId, traceId }) => (requestId || traceId ? shown(requestId || traceId) : '–'),
  },
];

/** @type {import('./shell.js').View} */
export const overLimit = {
  id: 'refusals',
  label: 'Over limit',
  draw(desk) {
    const { params } = desk;
    const question = {
      domain: params.get('domain') ?? '',
      entry: params.getAll('entry'),
      requestId: params.get('requestId') ?? '',
    };
    const find = submitted((form) =>
      desk.go('refusals', {
        domain: form.get('domain'),
        entry: linesOf(form.get('entries')),
        requestId: form.get('requestId'),
      }),
    );
    return html`
      <form class="panel line" @submit=${find}>
        ${domainField(question.domain, domainsOf(desk.live('rules', 0).value), false)}
        ${entriesField(question.entry, 'One per line; empty: all.', false)}
        ${field('Request', html`<input name="requestId" autocomplete="off" spellcheck="false" .value=${question.requestId}>`, 'x-request-id or trace id')}
        <button class="does">Find</button>
      </form>
      ${answered(
        desk.live(`refusals?${query({ ...question, limit: 200 })}`, 3_000),
        ({ refusals: rows, kept, since }) => html`
        ${table('Requests over limit', rejectionColumns(desk), rows, 'No such request was over limit.')}
        <small class="faint">Newest first, one row for each counter and second; ${number(kept)} are stored${since ? html`, since ${moment(since)}` : nothing}.</small>`,
      )}`;
  },
};
