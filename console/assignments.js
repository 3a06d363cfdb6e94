/** The view of assignments. The console shows it only if the limiter serves quota clients. */
import { query } from './api.js';
import { answered, domainField, domainsOf, entriesField, html, nothing, submitted, table } from './parts.js';
import { duration, entries, linesOf, moment, number, shown } from './text.js';

/** Chosen: what people look at. */
const maxRows = 200;

/** @type {import('./shell.js').View} */
export const assignments = {
  id: 'assignments',
  label: 'Quota clients',
  isShown: (desk) => desk.live('status', 2_000).value?.capabilities?.includes('quota-service') === true,
  draw(desk) {
    const domains = domainsOf(desk.live('rules', 0).value);
    const [only = '', ...others] = domains;
    const question = {
      domain: desk.params.get('domain') ?? (others.length === 0 ? only : ''),
      entry: desk.params.getAll('entry'),
    };
    const find = submitted((form) =>
      desk.go('assignments', { domain: form.get('domain'), entry: linesOf(form.get('entries')) }),
    );
    return html`
      <form class="panel line" @submit=${find}>
        ${domainField(question.domain, domains)}
        ${entriesField(question.entry, 'One per line. Finds buckets that have all of them; empty: all buckets.', false)}
        <button class="does">Find</button>
      </form>
      ${question.domain === '' ? html`<p class="empty">Choose a domain.</p>` : found(desk, question)}`;
  },
};

/** @param {import('./shell.js').Desk} desk @param {{ domain: string, entry: string[] }} question */
const found = (desk, question) =>
  answered(
    desk.live(`assignments?${query({ ...question, limit: maxRows })}`, 2_000),
    ({ assignments: rows, count }) => html`
    ${table('Assignments', columns, rows, emptyWords(question))}
    ${count > rows.length ? html`<small class="faint">${number(rows.length)} of ${number(count)}, the largest first. Give entries to see fewer.</small>` : nothing}`,
  );

/** @param {{ domain: string, entry: string[] }} question */
const emptyWords = ({ domain, entry }) =>
  entry.length > 0
    ? 'No quota client has an assignment for such buckets.'
    : html`No quota client has reported a bucket of ${shown(domain)} that a rule limits. Point the filter <code>rate_limit_quota</code> of an Envoy at the gRPC port of this limiter, with this domain, and send a request. <code>weir check --envoy</code> checks whether its buckets match the rules; the page “Decisions in the proxy” of the documentation has a configuration that works.`;

/** @type {import('./parts.js').Column[]} */
const columns = [
  {
    label: 'Client',
    cell: ({ caller, address }) =>
      caller === null ? shown(address) : html`${shown(caller)} <span class="faint">${shown(address)}</span>`,
  },
  {
    label: 'Bucket',
    cell: ({ bucket }) =>
      entries(Object.entries(bucket).map(([key, value]) => ({ key, value: String(value) }))),
  },
  { label: 'Rule', cell: ({ rule }) => shown(rule) },
  {
    label: 'May use',
    isNumber: true,
    cell: ({ mayUse, form }) =>
      html`<b>${number(mayUse)}</b>${form === 'refilling' ? html` <span class="faint">a window</span>` : nothing}`,
  },
  {
    label: 'Ends in',
    isNumber: true,
    cell: ({ ends }) => (ends === null ? '–' : duration((Date.parse(ends) - Date.now()) / 1_000)),
  },
  { label: 'Demand per second', isNumber: true, cell: ({ demand }) => number(demand) },
  {
    label: 'Used',
    isNumber: true,
    cell: ({ used, overReported }) =>
      html`${number(used)}${overReported > 0 ? html` <span class="badge bad" title="More than its assignment allows">+${number(overReported)}</span>` : nothing}`,
  },
  {
    label: 'Denied',
    isNumber: true,
    cell: ({ denied }) => html`<span class=${denied > 0 ? 'over' : ''}>${number(denied)}</span>`,
  },
  { label: 'Given back', isNumber: true, cell: ({ returned }) => number(returned) },
  { label: 'Since', cell: ({ since }) => moment(since) },
];
