/** The page of a control plane: what is on its way to which limiters. Read-only, since its changes are objects. */
import { overrideTable } from './overrides.js';
import { answered, badge, field, html, notes, nothing, table } from './parts.js';
import { addressOf, startConsole } from './shell.js';
import { moment, number, shown } from './text.js';

/** @typedef {import('./shell.js').Desk} Desk */

/** Often, so that a change is seen while it spreads. */
const spreadMs = 1_000;

/** @param {any} limiter */
function standing(limiter) {
  if (limiter.refusal) return badge('bad', 'rejected');
  if (limiter.isCurrent)
    return limiter.isTooOld ? badge('warn', 'in force as far as supported') : badge('good', 'in force');
  return badge('warn', limiter.sent ? 'sent' : 'behind');
}

/** Shows the progress of the newest version, with a mark for each limiter. @param {any} fleet */
function spread(fleet) {
  const { limiters } = fleet;
  const done = limiters.filter((/** @type {any} */ one) => one.isCurrent && !one.isTooOld).length;
  const rejecting = limiters.filter((/** @type {any} */ { refusal }) => refusal).length;
  return html`<div class="spread">
    <span class="marks" aria-hidden="true">${limiters.slice(0, 100).map((/** @type {any} */ one) => html`<span class="mark ${one.refusal ? 'bad' : one.isCurrent && !one.isTooOld ? 'good' : 'warn'}"></span>`)}</span>
    <span>in force on <b>${number(done)}</b> of ${number(limiters.length)}${rejecting === 0 ? nothing : html`, <b class="over">rejected by ${number(rejecting)}</b>`}</span></div>`;
}

/** @type {import('./shell.js').View} */
const fleets = {
  id: 'fleets',
  label: 'Fleets',
  draw: (desk) =>
    answered(
      desk.live('status', spreadMs),
      ({ fleets: all, notes: texts }) => html`${notes(texts)}
      ${all.length === 0 ? html`<p class="empty">No fleet has rules yet.</p>` : nothing}
      ${all.map(
        (/** @type {any} */ fleet) => html`<section aria-label=${`Fleet ${fleet.fleet}`}>
        <div class="line fleet"><h2>${shown(fleet.fleet || 'default')}</h2><span class="faint">version <b>${shown(fleet.version)}</b></span>${spread(fleet)}</div>
        ${table(
          `Limiters of ${fleet.fleet}`,
          [
            {
              label: 'Limiter',
              cell: ({ name, instance }) =>
                html`${shown(name)} <small class="faint">${instance && instance !== name ? shown(instance) : nothing}</small>`,
            },
            {
              label: 'State',
              cell: (one) =>
                html`${standing(one)}${one.refusal ? html` <small>${shown(one.refusal.message)}</small>` : nothing}`,
            },
            { label: 'Has', cell: ({ accepted }) => (accepted ? shown(accepted) : '–') },
            { label: 'Loading', cell: ({ sent }) => (sent ? shown(sent) : '–') },
            { label: 'Supports', cell: ({ capabilities }) => shown(capabilities.join(', ') || '–') },
            { label: 'Address', cell: ({ address }) => (address ? shown(address) : '–') },
            { label: 'Since', cell: ({ connectedAt }) => moment(connectedAt) },
          ],
          fleet.limiters,
          'No limiter is connected.',
        )}
      </section>`,
      )}`,
    ),
};

/** @type {import('./shell.js').View} */
const objects = {
  id: 'objects',
  label: 'Objects',
  draw(desk) {
    const only = desk.params.get('only') ?? '';
    return answered(desk.live('rules', spreadMs), ({ objects: all, notes: texts }) => {
      const rows = all
        .filter((/** @type {any} */ one) => only === '' || !isReady(one))
        .sort((/** @type {any} */ a, /** @type {any} */ b) => Number(isReady(a)) - Number(isReady(b)));
      return html`${notes(texts)}
        ${field(
          'Show',
          html`<select @change=${(/** @type {any} */ event) => desk.go('objects', { only: event.target.value })}>
          <option value="" ?selected=${only === ''}>all, not ready first</option><option value="waiting" ?selected=${only !== ''}>only not ready</option></select>`,
        )}
        ${table(
          'Objects',
          [
            {
              label: 'Object',
              cell: ({ kind, namespace, name }) =>
                html`${shown(`${namespace}/${name}`)} <small class="faint">${kind}</small>`,
            },
            {
              label: 'State',
              cell: (one) =>
                html`<ul class="list">${(one.conditions ?? []).map((/** @type {any} */ condition) => html`<li>${badge(conditionStanding(condition), html`${condition.type}: ${condition.reason ?? condition.status}`)} <small>${shown(condition.message)}</small></li>`)}</ul>`,
            },
            { label: 'Domain', cell: ({ domain }) => shown(domain) },
            { label: 'Fleet', cell: ({ fleet }) => (fleet ? shown(fleet) : '–') },
            { label: 'Generation', isNumber: true, cell: ({ generation }) => number(generation) },
            {
              label: 'Rules',
              isNumber: true,
              cell: ({ rules }) => number(Array.isArray(rules) ? rules.length : rules),
            },
          ],
          rows,
          only === '' ? 'There are no objects.' : 'All objects are ready.',
        )}`;
    });
  },
};

/** @param {any} object */
const isReady = ({ conditions = [] }) =>
  conditions.some((/** @type {any} */ { type, status }) => type === 'Ready' && status === 'True');
/** @param {any} condition @returns {'good' | 'bad' | 'warn' | 'plain'} */
function conditionStanding({ type, status }) {
  if (status === 'Unknown') return 'warn';
  const isGood = (status === 'True') === /^(?:Ready|Accepted|ResolvedRefs|Programmed)$/.test(type);
  return isGood ? 'good' : type === 'Ready' || type === 'Accepted' ? 'bad' : 'warn';
}

/** What this page saw, newest first: nothing remembers it but the page. @type {{ at: Date, fleet: string, says: unknown }[]} */
const seen = [];
const maxSeen = 200;
/** @type {Map<string, { version: string, limiters: Map<string, any> }>} */
const known = new Map();

/** Compares with what was seen before. @param {any[]} all */
function watch(all) {
  for (const fleet of all) {
    const before = known.get(fleet.fleet);
    const limiters = new Map(fleet.limiters.map((/** @type {any} */ one) => [one.instance ?? one.name, one]));
    known.set(fleet.fleet, { version: fleet.version, limiters });
    if (before === undefined) continue;
    const report = (/** @type {unknown} */ says) =>
      seen.unshift({ at: new Date(), fleet: fleet.fleet, says });
    if (before.version !== fleet.version)
      report(html`a change: version ${shown(before.version)} → <b>${shown(fleet.version)}</b>`);
    for (const [id, one] of limiters) {
      const was = before.limiters.get(id);
      if (was === undefined) report(html`${shown(one.name)} came`);
      if (was !== undefined && was.accepted !== one.accepted && one.accepted)
        report(html`${shown(one.name)} has ${shown(one.accepted)} in force`);
      if (one.refusal && JSON.stringify(was?.refusal) !== JSON.stringify(one.refusal))
        report(html`${shown(one.name)} ${badge('bad', 'rejected')} ${shown(one.refusal.message)}`);
    }
    for (const [id, { name }] of before.limiters) if (!limiters.has(id)) report(html`${shown(name)} went`);
  }
  seen.length = Math.min(seen.length, maxSeen);
}

/** @type {any} */
let watched;

/** @type {import('./shell.js').View} */
const change = {
  id: 'change',
  label: 'Rollout',
  draw: (desk) =>
    answered(
      desk.live('status', spreadMs),
      ({ fleets: all }) => html`
      ${table(
        'Fleets',
        [
          { label: 'Fleet', cell: ({ fleet }) => shown(fleet || 'default') },
          { label: 'Newest version', cell: ({ version }) => shown(version) },
          { label: 'Progress', cell: spread },
          {
            label: 'Waits for',
            cell: (fleet) =>
              fleet.limiters
                .filter((/** @type {any} */ one) => !one.isCurrent)
                .slice(0, 5)
                .map((/** @type {any} */ one) => html`${shown(one.name)} `),
          },
        ],
        all,
        'No fleet has rules yet.',
      )}
      <h2>Events since you opened this page</h2>
      ${seen.length === 0 ? html`<p class="empty">No events yet: apply an object, and watch limiters load it.</p>` : html`<ol class="log" role="log">${seen.map(({ at, fleet, says }) => html`<li>${moment(at)} <b>${shown(fleet || 'default')}</b> ${says}</li>`)}</ol>`}`,
    ),
};

/** @type {import('./shell.js').View} */
const overrides = {
  id: 'overrides',
  label: 'Overrides',
  draw: (desk) =>
    answered(
      desk.live('overrides', 2_000),
      ({ overrides: rows, notes: texts }) => html`${notes(texts)}${overrideTable(rows)}
      <p class="faint"><small>These overrides are objects: <code>weir override set</code> and <code>kubectl delete rlo</code> change them.</small></p>`,
    ),
};

/** @type {import('./shell.js').View} */
const rejections = {
  id: 'refusals',
  label: 'Rejections',
  draw: (desk) =>
    answered(desk.live('refusals', 2_000), ({ refusals: rows }) =>
      table(
        'Rejections',
        [
          { label: 'Limiter', cell: ({ limiter }) => shown(limiter) },
          { label: 'Fleet', cell: ({ fleet }) => shown(fleet) },
          { label: 'Message', cell: ({ message }) => shown(message) },
          {
            label: 'Of',
            cell: ({ resources }) =>
              resources === null
                ? 'all resources'
                : resources.map((/** @type {any} */ one) => html`${shown(one.name)} `),
          },
          { label: 'Version', cell: ({ version }) => shown(version) },
        ],
        rows,
        'No limiter rejects its snapshot.',
      ),
    ),
};

/** @param {Desk} desk */
function summary(desk) {
  const { value } = desk.live('status', spreadMs);
  if (value === undefined) return '';
  if (watched !== value) watch(value.fleets);
  watched = value;
  const limiters = value.fleets.flatMap((/** @type {any} */ fleet) =>
    fleet.limiters.map((/** @type {any} */ one) => one),
  );
  const behind = limiters.filter((/** @type {any} */ { isCurrent }) => !isCurrent).length;
  const rejecting = limiters.filter((/** @type {any} */ { refusal }) => refusal).length;
  return html`<b>${shown(value.replica)}</b> ${value.leader === value.replica ? badge('plain', 'leads') : nothing}
    ${rejecting > 0 ? html`<a href=${addressOf('refusals')}>${badge('bad', `${rejecting} reject${rejecting === 1 ? 's' : ''}`)}</a>` : behind > 0 ? html`<a href=${addressOf('change')}>${badge('warn', `${behind} behind`)}</a>` : badge('good', 'all have the newest version')}
    <span class="rate"><b>${number(value.fleets.length)}</b> fleet${value.fleets.length === 1 ? '' : 's'}, <b>${number(limiters.length)}</b> limiter${limiters.length === 1 ? '' : 's'}</span>`;
}

startConsole({ kind: 'control plane', views: [fleets, objects, change, overrides, rejections], summary });
