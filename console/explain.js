/** Try a request: the way of its entries through the rules, and what would count it. Nothing is counted. */
import { Problem } from './api.js';
import {
  ask,
  badge,
  domainField,
  domainsOf,
  entriesField,
  html,
  nothing,
  problemNote,
  submitted,
} from './parts.js';
import { addressOf } from './shell.js';
import { effectText, entries, entriesOf, entryTexts, limitText, linesOf, shown } from './text.js';

/** @type {{ of: string, answer?: any, problem?: Problem } | undefined} */
let tried;

/** @type {import('./shell.js').View} */
export const explain = {
  id: 'try',
  label: 'Try a request',
  draw(desk) {
    const { params } = desk;
    const [domain, texts] = [params.get('domain') ?? '', params.getAll('entry')];
    if (domain !== '' && tried?.of !== params.toString()) attempt(desk, domain, texts);
    return html`
      <form class="panel line" @submit=${submitted((form) => {
        tried = undefined;
        desk.go('try', { domain: form.get('domain'), entry: linesOf(form.get('entries')) });
        desk.redraw();
      })}>
        ${domainField(domain, domainsOf(desk.live('rules', 0).value))}
        ${entriesField(texts, 'The entries of one descriptor, one per line, in order.', true)}
        <button class="does">Try</button>
      </form>
      ${tried?.problem === undefined ? nothing : problemNote(tried.problem)}
      ${tried?.answer === undefined ? html`<p class="empty">Shows which rule applies to a request, and why. Counts nothing.</p>` : way(tried.answer)}`;
  },
};

/** @param {import('./shell.js').Desk} desk @param {string} domain @param {string[]} texts */
async function attempt(desk, domain, texts) {
  const mine = { of: desk.params.toString() };
  tried = mine;
  try {
    const answer = await ask('POST', 'explain', { domain, entries: entriesOf(texts) });
    if (tried === mine) tried = { ...mine, answer };
  } catch (error) {
    if (!(error instanceof Problem)) throw error;
    if (tried === mine) tried = { ...mine, problem: error };
  }
  desk.redraw();
}

const finds = /** @type {Record<string, ['good' | 'plain' | 'bad', string]>} */ ({
  exact: ['good', 'exact value'],
  wildcard: ['good', 'wildcard'],
  key: ['good', 'any value of the key'],
  none: ['bad', 'nothing'],
});

/** @param {any} step */
function stop({ entry, found, looked, rule, near = [] }) {
  const [standing, words] = finds[found] ?? ['plain', found];
  return html`<li class="stop ${standing}"><div>${entries([entry])} ${badge(standing, words)}</div>
    <div class="faint">looked for ${looked.map((/** @type {string} */ one) => html`<code>${shown(one)}</code> `)}${rule ? html`→ <code>${shown(rule)}</code>` : nothing}</div>
    ${near.length === 0 || found !== 'none' ? nothing : html`<div>Did you mean ${near.map((/** @type {string} */ one) => html`<code>${shown(one)}</code> `)}?</div>`}</li>`;
}

/** @param {any} answer */
function way({
  domain,
  entries: asked,
  steps,
  rule,
  effect,
  override,
  grants,
  limits,
  inForce,
  counters,
  text,
}) {
  const links = { domain, entry: entryTexts(asked) };
  return html`<section class="panel" aria-label="The path through the rules">
    <ol class="way">
      <li class="stop good"><div><b>${shown(domain)}</b> <span class="faint">the domain</span></div></li>
      ${steps.map(stop)}
      <li class="stop end ${rule || effect !== 'none' ? 'good' : 'bad'}">
        <div>${rule ? html`<b>${shown(rule.path)}</b> ${badge('good', 'this rule')}${rule.shadowMode ? badge('plain', 'shadow') : nothing}` : html`<b>No rule</b> ${effect === 'none' ? html`<span class="faint">the answer is OK, and nothing is counted</span>` : nothing}`}</div>
        ${limits.map((/** @type {any} */ limit) => html`<div>${limit.name ? html`${shown(limit.name)}: ` : nothing}${limitText(limit)}</div>`)}
        ${override ? html`<div>${badge('warn', 'override')} ${effectText(override)} <small>${shown(override.reason ?? '')}</small></div>` : nothing}
        ${override || grants.length > 0 ? html`<div>In force: <b>${shown(inForce.join('; '))}</b></div>` : nothing}
        ${counters.map((/** @type {string} */ key) => html`<div class="faint">counter <code>${shown(key)}</code></div>`)}
        <div class="buttons">${rule ? html`<a class="button" href=${addressOf('counters', links)}>Counter</a>` : nothing}
          <a class="button" href=${addressOf('overrides', links)}>Override …</a></div>
      </li>
    </ol>
    ${text?.length ? html`<details><summary>In words</summary><pre>${text.map((/** @type {string} */ line) => html`${shown(line)}\n`)}</pre></details>` : nothing}
  </section>`;
}
