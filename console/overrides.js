/** The overrides: shows them and removes them. */
import { query } from './api.js';
import { setForm } from './override-form.js';
import { answered, ask, badge, confirmChange, html, notes, nothing, table } from './parts.js';
import { duration, effectText, entries, moment, shown } from './text.js';

/** @type {import('./shell.js').View} */
export const overrides = {
  id: 'overrides',
  label: 'Overrides',
  draw(desk) {
    return html`${answered(desk.live('overrides', 2_000), ({ overrides: rows, notes: texts }) => html`${notes(texts)}${overrideTable(rows, (one) => removal(desk, one))}`)}
      <h2 id="set">New override</h2>${setForm(desk)}`;
  },
};

/** Others are reasons why an override is not accepted. */
const states = /** @type {Record<string, 'good' | 'warn' | 'bad' | 'plain'>} */ ({
  InForce: 'good',
  Pending: 'warn',
  Ended: 'plain',
  NoRule: 'warn',
});

/** Read-only without `change`. @param {any[]} rows @param {(override: any) => unknown} [change] */
export function overrideTable(rows, change) {
  return table(
    'Overrides',
    [
      {
        label: 'Match',
        cell: ({ domain, match }) => html`<span class="faint">${shown(domain)}</span> ${entries(match)}`,
      },
      { label: 'Effect', cell: (one) => effectText(one) },
      {
        label: 'State',
        cell: ({ state, message }) =>
          html`${badge(states[state] ?? 'bad', state)}${message ? html` <small>${shown(message)}</small>` : nothing}`,
      },
      {
        label: 'Left',
        isNumber: true,
        cell: ({ endsAt, grant }) =>
          endsAt
            ? html`<span title=${endsAt}>${duration((Date.parse(endsAt) - Date.now()) / 1_000)}</span>`
            : grant
              ? 'this window'
              : 'permanent',
      },
      { label: 'Reason', cell: ({ reason }) => (reason ? shown(reason) : '–') },
      {
        label: 'By',
        cell: ({ source, name, createdBy, createdAt }) =>
          html`${createdBy ? shown(createdBy) : nothing} <span class="faint">${source}${name ? html` ${shown(name)}` : nothing}${createdAt ? html`, ${moment(createdAt)}` : nothing}</span>`,
      },
      ...(change === undefined ? [] : [{ label: 'Change', cell: change }]),
    ],
    rows,
    'There are no overrides.',
  );
}

/** @param {import('./shell.js').Desk} desk @param {any} override */
function removal(desk, override) {
  const { id, source, domain, match } = override;
  if (source === 'object') return html`<small class="faint">an object: delete it in Kubernetes</small>`;
  if (source === 'file') return html`<small class="faint">in a file: remove it there</small>`;
  return html`<button @click=${() =>
    confirmChange({
      title: 'Remove this override?',
      says: html`<p>${shown(domain)} ${entries(match)}: ${effectText(override)}</p><p>The rule applies again on every limiter, within a second. Counters do not change.</p>`,
      verb: 'Remove',
      async act() {
        await ask('DELETE', `overrides?${query({ id })}`);
        desk.say(html`Removed the override on ${entries(match)}.`);
        desk.refresh();
      },
    })}>Remove …</button>`;
}
