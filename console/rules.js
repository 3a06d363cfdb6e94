/** The rules as a tree: what each allows, how often it is asked, whom it rejects most. */
import { query } from './api.js';
import { answered, badge, html, notes, nothing } from './parts.js';
import { addressOf } from './shell.js';
import { limitText, number, shown } from './text.js';

/** The maximum number of rules of a level, and of offenders of a rule. */
const maxShown = 200;
const maxOffenders = 5;
let wanted = '';
/** Opened or closed by hand, by path. @type {Map<string, boolean>} */
const opened = new Map();

/** @type {import('./shell.js').View} */
export const rules = {
  id: 'rules',
  label: 'Rules',
  draw(desk) {
    const domain = desk.params.get('domain') ?? '';
    const top = desk.live(`top?${query({ domain, n: 100 })}`, 5_000).value;
    const overrides = desk.live(`overrides?${query({ domain })}`, 5_000).value?.overrides ?? [];
    return answered(
      desk.live(`rules?${query({ domain })}`, 3_000),
      ({ version, domains, notes: texts }) => html`
      <div class="panel line">
        <label class="field"><span>Find</span><input type="search" autocomplete="off" spellcheck="false" .value=${wanted} @input=${(
          /** @type {any} */ event,
        ) => {
          wanted = event.target.value;
          desk.redraw();
        }}></label>
        <p class="faint">Version <b>${shown(version)}</b>, ${number(domains.length)} domain${domains.length === 1 ? '' : 's'}${domain ? html`: <a href=${addressOf('rules')}>all domains</a>` : nothing}</p>
      </div>
      ${notes(texts)}
      ${domains.length === 0 ? html`<p class="empty">No rules are loaded.</p>` : nothing}
      ${domains.map((/** @type {any} */ one) => drawDomain(desk, one, top, overrides.filter((/** @type {any} */ over) => over.domain === one.domain).length))}`,
    );
  },
};

/** @param {import('./shell.js').Desk} desk @param {any} of @param {any} top @param {number} overrides */
function drawDomain(desk, { domain, rules: list }, top, overrides) {
  const keys = top?.domains.find((/** @type {any} */ one) => one.domain === domain)?.keys ?? [];
  return html`<section class="domain" aria-label=${`Domain ${domain}`}><h2>${shown(domain)} ${overrides === 0 ? nothing : html`<a href=${addressOf('overrides')}>${badge('warn', `${overrides} override${overrides === 1 ? '' : 's'}`)}</a>`}</h2>${level(desk, list, keys, 0)}</section>`;
}

/** @param {any} rule @returns {boolean} */
const isWanted = (rule) =>
  wanted === '' ||
  rule.path.toLowerCase().includes(wanted.toLowerCase()) ||
  (rule.rules ?? []).some(isWanted);

/** @param {import('./shell.js').Desk} desk @param {any[]} list @param {any[]} keys @param {number} depth @returns {unknown} */
function level(desk, list, keys, depth) {
  const all = list.filter(isWanted);
  return html`<ul class="tree">${all.slice(0, maxShown).map((rule) => html`<li>${drawRule(desk, rule, keys, depth)}</li>`)}
    ${all.length > maxShown ? html`<li class="faint">and ${number(all.length - maxShown)} more: use “Find” to see fewer</li>` : nothing}</ul>`;
}

/** @param {import('./shell.js').Desk} desk @param {any} rule @param {any[]} keys @param {number} depth */
function drawRule(desk, rule, keys, depth) {
  const {
    path,
    key,
    value,
    limits = [],
    shadowMode,
    quotaMode,
    hitsPerSecond,
    limitedPerSecond,
    hits,
    limited,
    rules: below = [],
  } = rule;
  const worst = keys.filter((one) => one.rule === path);
  const line = html`<span class="rule"><span class="entry"><span class="key">${shown(key)}</span>${value ? html`<span class="equals">=</span>${shown(value)}` : nothing}</span>
    ${limits.map((/** @type {any} */ limit) => html`<span class="limit">${limit.name ? html`${shown(limit.name)}: ` : nothing}${limitText(limit)}</span>`)}
    ${shadowMode ? badge('plain', 'shadow') : nothing}${quotaMode ? badge('plain', 'quota') : nothing}
    <span class="rate">${hitsPerSecond === null ? nothing : html`<b>${number(hitsPerSecond)}</b>/s, <b class=${limitedPerSecond > 0 ? 'over' : ''}>${number(limitedPerSecond)}</b> limited`}</span></span>`;
  if (below.length === 0 && worst.length === 0) return html`<div class="leaf">${line}</div>`;
  const isOpen = opened.get(path) ?? (wanted !== '' || depth < 2);
  const toggled = (/** @type {any} */ event) => {
    if (event.target.open === isOpen) return;
    opened.set(path, event.target.open);
    desk.redraw();
  };
  return html`<details .open=${isOpen} @toggle=${toggled}><summary>${line}</summary>
    ${
      isOpen
        ? html`
      ${worst.length === 0 ? nothing : html`<p class="worst"><span class="faint">${number(limited)} of ${number(hits)} limited; most often over</span> ${worst.slice(0, maxOffenders).map((one) => html`<span class="offender">${shown(one.key)} <b>${number(one.atMost)}</b></span>`)}</p>`}
      ${below.length === 0 ? nothing : level(desk, below, keys, depth + 1)}`
        : nothing
    }
  </details>`;
}
