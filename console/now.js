/** The view of the present and the last hour, with the keys most often over limit and the latest requests over limit. */
import { series } from './chart.js';
import { rejectionColumns } from './over-limit.js';
import { answered, badge, field, html, nothing, table } from './parts.js';
import { addressOf } from './shell.js';
import { duration, measured, milliseconds, moment, number, shown } from './text.js';

/** The point that the pointer is at. @type {number | undefined} */
let lookedAt;

/** @type {import('./shell.js').View} */
export const now = {
  id: 'now',
  label: 'Now',
  draw(desk) {
    const domain = desk.params.get('domain') ?? '';
    // The answer that the header shows, too.
    return html`${answered(desk.live('status', 2_000), ({ rates }) => tiles(rates))}
      ${answered(desk.live('status?history=true', 5_000), ({ history }) => chart(desk, history, domain))}
      <div class="two">
        <section aria-labelledby="top"><h2 id="top">Most often over the limit</h2>${top(desk, domain)}</section>
        <section aria-labelledby="recent"><h2 id="recent">Latest requests over limit</h2>
          ${answered(
            desk.live(`refusals?limit=8${domain ? `&domain=${encodeURIComponent(domain)}` : ''}`, 3_000),
            ({ refusals }) =>
              table(
                'Latest requests over limit',
                rejectionColumns(desk).filter(({ isShort }) => isShort),
                refusals,
                'No request was over limit.',
              ),
          )}
        </section>
      </div>`;
  },
};

/** @param {any} rates */
const tiles = (rates) => html`<p class="faint window">Per second, ${measured(rates)}</p>
  <dl class="tiles">
    ${tile('Decisions', rates.decisions, '/s')}${tile('Limited', rates.limited, '/s', 'over')}
    ${tile('Near limit', rates.nearLimit, '/s', 'near')}${tile('Shadowed', rates.shadow, '/s', 'shadowed')}
    ${quantiles('gRPC', rates.p50Ms, rates.p99Ms)}${quantiles('HTTP', rates.httpP50Ms, rates.httpP99Ms)}
  </dl>`;

/** @param {string} listener @param {number | null} p50 @param {number | null} p99 */
const quantiles = (listener, p50, p99) =>
  html`<div><dt>${listener} p50, p99</dt><dd>${milliseconds(p50)} <small>${milliseconds(p99)}</small></dd></div>`;

/** @param {string} label @param {number} value @param {string} unit @param {string} kind */
const tile = (label, value, unit, kind = '') =>
  html`<div><dt>${label}</dt><dd class=${value > 0 ? kind : ''}>${number(value)}<small>${unit}</small></dd></div>`;

/** The chart takes the same list for the same. @type {WeakMap<number[][], number[][]>} */
const divided = new WeakMap();

/** @param {number[][]} points Hits a step. @param {number} stepSeconds */
function perSecond(points, stepSeconds) {
  const all =
    divided.get(points) ?? points.map(([at = 0, ...hits]) => [at, ...hits.map((one) => one / stepSeconds)]);
  divided.set(points, all);
  return all;
}

/** @param {import('./shell.js').Desk} desk @param {any} history @param {string} domain */
function chart(desk, history, domain) {
  const { stepSeconds, domains = [] } = history;
  const of = domain === '' ? history : domains.find((/** @type {any} */ one) => one.domain === domain);
  const points = perSecond(of?.points ?? [], stepSeconds);
  const at = points[lookedAt ?? points.length - 1];
  const remembered = points.length * stepSeconds;
  const isWhole = remembered >= 3_600;
  return html`<section class="panel chart" aria-labelledby="hour">
    <div class="line"><div><h2 id="hour">The last hour, per second</h2>
      ${isWhole ? nothing : html`<small class="faint">${remembered === 0 ? 'No history yet.' : html`The limiter stores the last ${duration(remembered)}, since ${moment(((points[0]?.[0] ?? 0) - stepSeconds) * 1_000)}.`}</small>`}</div>
      ${field(
        'Domain',
        html`<select @change=${(/** @type {any} */ event) => desk.go('now', { domain: event.target.value })}>
        <option value="" ?selected=${domain === ''}>all</option>
        ${domains.map((/** @type {any} */ one) => html`<option value=${one.domain} ?selected=${one.domain === domain}>${one.domain}</option>`)}
      </select>`,
      )}
    </div>
    <weir-chart role="img" aria-label="Decisions per second in the last hour; the table below has the numbers" .points=${points}
      @look=${(/** @type {any} */ { detail }) => {
        lookedAt = detail;
        desk.redraw();
      }}></weir-chart>
    <p class="legend"><span class="swatch grid"></span>${at === undefined ? nothing : moment((at[0] ?? 0) * 1_000)}
      ${series.map(({ name, label }, index) => html`<span><span class="swatch ${name}">●</span> ${label} <b>${number(at?.[index + 1] ?? 0)}</b></span>`)}</p>
    <details><summary>As a table</summary>${table(
      'Decisions per second',
      [
        { label: 'Time', cell: (point) => moment(point[0] * 1_000) },
        ...series.map(({ label }, index) => ({
          label,
          isNumber: true,
          cell: (/** @type {number[]} */ point) => number(point[index + 1]),
        })),
      ],
      points.slice(-18).reverse(),
      'No history yet.',
    )}<small>The last ${Math.min(18, points.length) * stepSeconds} s, one row for ${stepSeconds} s.</small></details>
  </section>`;
}

/** @param {import('./shell.js').Desk} desk @param {string} domain */
function top(desk, domain) {
  return answered(
    desk.live(`top?n=8${domain ? `&domain=${encodeURIComponent(domain)}` : ''}`, 5_000),
    ({ domains, since }) => {
      const rows = domains
        .flatMap((/** @type {any} */ one) =>
          one.keys.map((/** @type {any} */ key) => ({ ...key, domain: one.domain })),
        )
        .sort((/** @type {any} */ a, /** @type {any} */ b) => b.atMost - a.atMost)
        .slice(0, 12);
      return html`${table(
        'Most often over the limit',
        [
          { label: 'Key', cell: ({ key }) => shown(key) },
          {
            label: 'Rule',
            cell: ({ rule, domain: of, shadowMode }) =>
              html`<a href=${addressOf('rules', { domain: of })}>${shown(rule)}</a>${shadowMode ? badge('plain', 'shadow') : nothing}`,
          },
          {
            label: 'Over',
            isNumber: true,
            cell: ({ atLeast, atMost }) => html`${atLeast === atMost ? '' : '≤ '}${number(atMost)}`,
          },
        ],
        rows,
        'No key is over limit.',
      )}<small class="faint">Since ${moment(since)}.</small>`;
    },
  );
}
