/** What all views are made of: tables, states, forms, and the question before a change. */
import { html, nothing, render } from '../node_modules/lit-html/lit-html.js';
import { ask, Problem } from './api.js';

/** @typedef {import('../node_modules/lit-html/lit-html.js').TemplateResult} Drawn */
/** @typedef {{ label: string, isNumber?: boolean, cell: (row: any) => any }} Column */

/**
 * @param {string} caption
 * @param {Column[]} columns The first names its row.
 * @param {any[]} rows
 * @param {unknown} empty What an empty list means.
 */
export function table(caption, columns, rows, empty) {
  if (rows.length === 0) return html`<p class="empty">${empty}</p>`;
  return html`<div class="scroll" role="region" aria-label=${caption} tabindex="0"><table>
    <caption class="unseen">${caption}</caption>
    <thead><tr>${columns.map(({ label, isNumber }) => html`<th scope="col" class=${isNumber ? 'number' : ''}>${label}</th>`)}</tr></thead>
    <tbody>${rows.map(
      (row) =>
        html`<tr>${columns.map(({ label, isNumber, cell }, at) =>
          at === 0
            ? html`<th scope="row" data-label=${label}><div>${cell(row)}</div></th>`
            : html`<td data-label=${label} class=${isNumber ? 'number' : ''}><div>${cell(row)}</div></td>`,
        )}</tr>`,
    )}</tbody></table></div>`;
}

/** @param {'good' | 'warn' | 'bad' | 'plain'} standing @param {unknown} text */
export const badge = (standing, text) => html`<span class="badge ${standing}">${text}</span>`;

/** Draws how much of a limit is used. @param {number} used @param {number | null} limit */
export function meter(used, limit) {
  if (limit === null || limit === undefined) return nothing;
  const share = limit === 0 ? 1 : Math.min(1, used / limit);
  const standing = used > limit || limit === 0 ? 'bad' : share >= 0.8 ? 'warn' : 'good';
  return html`<svg class="meter ${standing}" viewBox="0 0 100 6" preserveAspectRatio="none" aria-hidden="true"><rect class="all" width="100" height="6" rx="3"/><rect width=${Math.max(share * 100, used > 0 ? 3 : 0)} height="6" rx="3"/></svg>`;
}

/** An answer that is not there yet, or was rejected; else what becomes of it. @param {import('./api.js').Held} held @param {(value: any) => any} draw */
export function answered(held, draw) {
  const { value, problem } = held;
  return html`${problem === undefined || problem.status === 0 || problem.status === 401 ? nothing : problemNote(problem, value !== undefined)}
    ${value === undefined ? (problem === undefined ? html`<p class="empty">Loading …</p>` : nothing) : problem === undefined ? draw(value) : html`<div class="before">${draw(value)}</div>`}`;
}

/** @param {Problem} problem @param {boolean} [hasBefore] An older answer stands below. */
export const problemNote = (problem, hasBefore = false) =>
  html`<p class="note bad" role="alert">${problem.status === 0 ? 'No answer, so it is unknown whether the change was made. Check before you try again.' : problem.message}${hasBefore ? ' – This is older data.' : nothing}</p>`;

/** @param {readonly string[] | undefined} list */
export const notes = (list) => (list ?? []).map((note) => html`<p class="note">${note}</p>`);

/** @param {string} label @param {unknown} field @param {unknown} [hint] */
export const field = (label, field, hint) =>
  html`<label class="field"><span>${label}</span>${field}${hint ? html`<small>${hint}</small>` : nothing}</label>`;

/** Chosen from those that have rules; a link may name another one. @param {string} value @param {readonly string[]} domains @param {boolean} isRequired */
export function domainField(value, domains, isRequired = true) {
  const all = value === '' || domains.includes(value) ? domains : [value, ...domains];
  const chosen = value === '' && isRequired && all.length === 1 ? all[0] : value;
  return field(
    'Domain',
    html`<select name="domain" ?required=${isRequired}>
      <option value="" ?selected=${chosen === ''}>${isRequired ? 'Choose one' : 'all'}</option>
      ${all.map((one) => html`<option value=${one} ?selected=${one === chosen}>${one}</option>`)}
    </select>`,
  );
}

/** @param {readonly string[]} value @param {string} hint @param {boolean} isRequired */
export const entriesField = (value, hint, isRequired) =>
  field(
    'Entries',
    html`<textarea name="entries" rows=${Math.max(2, value.length)} wrap="off" ?required=${isRequired} autocomplete="off" spellcheck="false" placeholder="remote_address=203.0.113.7" .value=${value.join('\n')}></textarea>`,
    hint,
  );

/** @param {(form: FormData, event: SubmitEvent) => void} take */
export const submitted = (take) => (/** @type {SubmitEvent} */ event) => {
  event.preventDefault();
  take(new FormData(/** @type {HTMLFormElement} */ (event.target)), event);
};

/**
 * A change asks once. Says what will happen; when it is confirmed, does it, and stays open with the words of a rejection.
 * @param {object} question
 * @param {string} question.title
 * @param {unknown} question.says
 * @param {unknown} [question.fields]
 * @param {string} question.verb Of the button that does it.
 * @param {(form: FormData) => Promise<void>} question.act
 */
export function confirmChange({ title, says, fields, verb, act }) {
  const dialog = document.createElement('dialog');
  document.body.append(dialog);
  dialog.setAttribute('aria-labelledby', 'question');
  dialog.addEventListener('close', () => dialog.remove());
  let busy = false;
  /** @type {Problem | undefined} */
  let problem;
  const take = submitted(async (form) => {
    if (busy) return;
    busy = true;
    problem = undefined;
    draw();
    try {
      await act(form);
      dialog.close();
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
      busy = false;
      problem = error;
      draw();
    }
  });
  const draw = () =>
    render(
      html`<form @submit=${take}>
      <h2 id="question">${title}</h2>
      <div class="says">${says}</div>
      ${fields ?? nothing}
      ${problem === undefined ? nothing : problemNote(problem)}
      <div class="buttons"><button type="button" @click=${() => dialog.close()}>Cancel</button><button class="does" ?disabled=${busy}>${busy ? 'Doing it …' : verb}</button></div>
    </form>`,
      dialog,
    );
  draw();
  dialog.showModal();
}

/** Each domain that is known, of `/v1/rules`. @param {any} rules @returns {string[]} */
export const domainsOf = (rules) => (rules?.domains ?? []).map((/** @type {any} */ { domain }) => domain);

export { ask, html, nothing };
