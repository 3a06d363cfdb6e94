/** What lies over the rules for a time: see it, lay one, take it away. */
import { Problem, query } from './api.js';
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
  notes,
  nothing,
  refusal,
  submitted,
  table,
} from './parts.js';
import { duration, effectText, entries, entriesOf, linesOf, moment, shown } from './text.js';

const effects = {
  requestsPerUnit: 'another limit',
  unlimited: 'no limit',
  shadow: 'count, refuse nobody',
  block: 'refuse all',
};
const ends = { for: 'after', expiresAt: 'at', permanent: 'never' };
const units = ['', 'second', 'minute', 'hour', 'day', 'week', 'month', 'year'];
/** What is chosen in the form, which shows the fields that go with it. */
const chosen = { effect: 'requestsPerUnit', end: 'for' };

/** @type {import('./shell.js').View} */
export const overrides = {
  id: 'overrides',
  label: 'Overrides',
  draw(desk) {
    return html`${answered(desk.live('overrides', 2_000), ({ overrides: rows, notes: said }) => html`${notes(said)}${overrideTable(rows, (one) => removal(desk, one))}`)}
      <h2 id="set">Set one</h2>${setForm(desk)}`;
  },
};

/** Others are reasons why an override is not accepted. */
const standings = /** @type {Record<string, 'good' | 'warn' | 'bad' | 'plain'>} */ ({
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
        label: 'Standing',
        cell: ({ standing, message }) =>
          html`${badge(standings[standing] ?? 'bad', standing)}${message ? html` <small>${shown(message)}</small>` : nothing}`,
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
    'No override lies over the rules.',
  );
}

/** @param {import('./shell.js').Desk} desk @param {any} override */
function removal(desk, override) {
  const { id, source, domain, match } = override;
  if (source === 'object') return html`<small class="faint">an object: delete it in Kubernetes</small>`;
  if (source === 'file') return html`<small class="faint">in a file: take it out there</small>`;
  return html`<button @click=${() =>
    confirmChange({
      title: 'Remove this override?',
      says: html`<p>${shown(domain)} ${entries(match)}: ${effectText(override)}</p><p>The rule as it is written holds again, on every limiter, within a second. Counters stay.</p>`,
      verb: 'Remove',
      async act() {
        await ask('DELETE', `overrides?${query({ id })}`);
        desk.say(html`Removed the override on ${entries(match)}.`);
        desk.refresh();
      },
    })}>Remove …</button>`;
}

/** @param {import('./shell.js').Desk} desk */
function setForm(desk) {
  const { params } = desk;
  const choose = (/** @type {'effect' | 'end'} */ what) => (/** @type {any} */ event) => {
    chosen[what] = event.target.value;
    desk.redraw();
  };
  const options = (/** @type {Record<string, string>} */ all, /** @type {string} */ now) =>
    Object.entries(all).map(
      ([value, label]) => html`<option value=${value} ?selected=${value === now}>${label}</option>`,
    );
  return html`<form class="panel grid" aria-labelledby="set" @submit=${submitted((form) => set(desk, form))}>
    ${domainField(params.get('domain') ?? '', domainsOf(desk.live('rules', 0).value))}
    ${entriesField(params.getAll('entry'), 'The whole list, one a line; * in a value stands for anything.', true)}
    ${field('Effect', html`<select name="effect" @change=${choose('effect')}>${options(effects, chosen.effect)}</select>`)}
    ${
      chosen.effect === 'requestsPerUnit'
        ? html`${field('Requests per unit', html`<input name="requestsPerUnit" type="number" min="0" step="1" required>`)}
        ${field('Unit', html`<select name="unit">${units.map((unit) => html`<option value=${unit}>${unit || "the rule's"}</option>`)}</select>`, 'Needed where no rule matches.')}`
        : nothing
    }
    ${chosen.effect === 'block' ? nothing : field('Limit', html`<input name="limit" autocomplete="off" spellcheck="false">`, 'Its name, where the rule has several.')}
    ${field('Ends', html`<select name="end" @change=${choose('end')}>${options(ends, chosen.end)}</select>`)}
    ${chosen.end === 'for' ? field('Time', html`<input name="for" required autocomplete="off" .value=${'2h'}>`, '30m, 2h, 3d') : nothing}
    ${chosen.end === 'expiresAt' ? field('Until', html`<input name="expiresAt" type="datetime-local" required>`, 'In the time of this browser.') : nothing}
    ${field('Reason', html`<input name="reason" required maxlength="256" autocomplete="off">`)}
    <div class="buttons"><button class="does">Create …</button></div>
  </form>`;
}

/** @param {import('./shell.js').Desk} desk @param {FormData} form */
function set(desk, form) {
  const text = (/** @type {string} */ name) => String(form.get(name) ?? '').trim();
  const { effect, end } = chosen;
  const body = {
    domain: text('domain'),
    match: entriesOf(linesOf(form.get('entries'))),
    ...(text('limit') === '' ? {} : { limit: text('limit') }),
    ...(effect === 'requestsPerUnit'
      ? {
          requestsPerUnit: Number(text('requestsPerUnit')),
          ...(text('unit') === '' ? {} : { unit: text('unit') }),
        }
      : { [effect]: true }),
    ...(end === 'for'
      ? { for: text('for') }
      : end === 'expiresAt'
        ? { expiresAt: new Date(text('expiresAt')).toISOString() }
        : { permanent: true }),
    reason: text('reason'),
  };
  const until =
    end === 'for'
      ? `for ${text('for')}`
      : end === 'expiresAt'
        ? html`until ${moment(text('expiresAt'))}`
        : 'until somebody removes it';
  const says = html`<p>${shown(body.domain)} ${entries(body.match)}: <b>${effectText(body)}</b>, ${until}.</p>
    <p>Every limiter of this store obeys within a second. Counters stay as they are.</p>`;
  const done = () => {
    desk.say(html`Set: ${entries(body.match)} ${effectText(body)}, ${until}.`);
    desk.go('overrides');
    desk.refresh();
  };
  confirmChange({
    title: 'Create this override?',
    says,
    verb: 'Create',
    async act() {
      try {
        await ask('POST', 'overrides', body);
        done();
      } catch (error) {
        if (
          !(error instanceof Problem) ||
          error.status !== 409 ||
          error.members['conflictsWith'] === undefined
        )
          throw error;
        replace(body, error, says, done);
      }
    },
  });
}

/** @param {any} body @param {Problem} conflict @param {unknown} says @param {() => void} done */
function replace(body, conflict, says, done) {
  confirmChange({
    title: 'Replace the one that is there?',
    says: html`${refusal(conflict)}${says}`,
    verb: 'Replace',
    async act() {
      await ask('PUT', 'overrides', body);
      done();
    },
  });
}
