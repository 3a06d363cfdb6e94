/** The form that creates an override: it shows the limit in force and the new one before it does. */
import { Problem } from './api.js';
import {
  ask,
  confirmChange,
  domainField,
  domainsOf,
  entriesField,
  field,
  html,
  nothing,
  problemNote,
  submitted,
} from './parts.js';
import {
  countedName,
  effectText,
  entries,
  entriesOf,
  limitText,
  linesOf,
  moment,
  shown,
  windowName,
} from './text.js';

/** @typedef {import('./shell.js').Desk} Desk */

const effects = {
  requestsPerUnit: 'another limit',
  unlimited: 'no limit',
  shadow: 'count, but never over limit',
  block: 'block all requests',
};
const ends = { for: 'after', expiresAt: 'at', permanent: 'never' };
const units = ['second', 'minute', 'hour', 'day', 'week', 'month', 'year'];
/** The selected values of the form, which decide the visible fields. */
const chosen = { effect: 'requestsPerUnit', end: 'for', per: '' };
/** The limits that count what the form is for; undefined until they are known, and of patterns. What may be misspelled. @type {{ of: string, limits?: any[], hint?: string }} */
let inForce = { of: '' };
/** The values from the link to this page. */
let linkedTo = '';
/** The timer after which the entries are looked up. @type {ReturnType<typeof setTimeout> | undefined} */
let due;
const settledMs = 300;
/** The reason why the form cannot be submitted yet. @type {Problem | undefined} */
let problem;

/** @param {Desk} desk */
export function setForm(desk) {
  const { params } = desk;
  const domain = params.get('domain') ?? '';
  const match = params.getAll('entry');
  const linked = params.toString();
  if (linked !== linkedTo) {
    linkedTo = linked;
    problem = undefined;
    lookUp(desk, domain, match);
  }
  const choose = (/** @type {'effect' | 'end' | 'per'} */ what) => (/** @type {any} */ event) => {
    chosen[what] = event.target.value;
    desk.redraw();
  };
  const options = (/** @type {Record<string, string>} */ all, /** @type {string} */ now) =>
    Object.entries(all).map(
      ([value, label]) => html`<option value=${value} ?selected=${value === now}>${label}</option>`,
    );
  const { limits, hint } = inForce;
  const [only, ...others] = limits ?? [];
  // The window of a rule stays, so that a unit is for what no rule counts.
  const takesUnit = chosen.effect === 'requestsPerUnit' && only === undefined;
  const per = only === undefined ? chosen.per || 'window' : others.length > 0 ? 'window' : windowName(only);
  return html`<form class="panel grid" aria-labelledby="set" @submit=${submitted((form) => propose(desk, form))}
    @input=${(/** @type {any} */ { currentTarget }) => {
      // Not when it is looked up: the limiter may have rejected what is written by then.
      if (problem !== undefined) {
        problem = undefined;
        desk.redraw();
      }
      clearTimeout(due);
      due = setTimeout(() => {
        const form = new FormData(currentTarget);
        lookUp(desk, String(form.get('domain')), linesOf(form.get('entries')));
      }, settledMs);
    }}>
    ${domainField(domain, domainsOf(desk.live('rules', 0).value))}
    ${entriesField(match, 'The whole descriptor, one per line; in a value, * stands for any text.', true)}
    ${field('Effect', html`<select name="effect" @change=${choose('effect')}>${options(effects, chosen.effect)}</select>`, chosen.effect === 'requestsPerUnit' ? nothing : ruleText(limits))}
    ${
      chosen.effect === 'requestsPerUnit'
        ? field(
            `${countedName(only)} per ${per}`,
            html`<input name="requestsPerUnit" type="number" min="0" step="1" required>`,
            ruleText(limits),
          )
        : nothing
    }
    ${takesUnit ? field('Unit', html`<select name="unit" ?required=${limits !== undefined} @change=${choose('per')}>${options({ '': limits === undefined ? "the rule's" : 'Choose one', ...Object.fromEntries(units.map((one) => [one, one])) }, chosen.per)}</select>`, 'Required if no rule matches.') : nothing}
    ${chosen.effect === 'block' || (only !== undefined && others.length === 0) ? nothing : field('Limit', html`<input name="limit" autocomplete="off" spellcheck="false">`, 'Its name, if the rule has several.')}
    ${field('Ends', html`<select name="end" @change=${choose('end')}>${options(ends, chosen.end)}</select>`)}
    ${chosen.end === 'for' ? field('Time', html`<input name="for" required autocomplete="off" .value=${'2h'}>`, '30m, 2h, 3d') : nothing}
    ${chosen.end === 'expiresAt' ? field('Until', html`<input name="expiresAt" type="datetime-local" required>`, 'In the time zone of this browser.') : nothing}
    ${field('Reason', html`<input name="reason" required maxlength="256" autocomplete="off">`)}
    ${hint ? html`<p class="note warn">${shown(hint)}</p>` : nothing}
    <div class="buttons"><button class="does">Create …</button></div>
  </form>${problem === undefined ? nothing : problemNote(problem)}`;
}

/** @param {any[] | undefined} limits */
const ruleText = (limits) =>
  limits === undefined
    ? nothing
    : limits.length === 0
      ? 'No limit is in force.'
      : html`In force: ${limits.map((limit, n) => html`${n === 0 ? nothing : '; '}${limitText(limit)}`)}`;

/** Which limits count it: of a pattern, which matches many, that is unknown. @param {Desk} desk @param {string} domain @param {string[]} texts */
async function lookUp(desk, domain, texts) {
  const of = JSON.stringify([domain, texts]);
  if (inForce.of === of) return;
  const mine = { of };
  inForce = mine;
  desk.redraw();
  if (domain === '' || texts.length === 0) return;
  const answer = await ask('POST', 'explain', { domain, entries: entriesOf(texts) }).catch(() => undefined);
  if (inForce !== mine || answer === undefined) return;
  const { hint } = answer;
  inForce = texts.some((text) => text.includes('*')) ? { of, hint } : { of, hint, limits: answer.limits };
  desk.redraw();
}

/** Asks what it would change, and then whether it is to be so. @param {Desk} desk @param {FormData} form */
async function propose(desk, form) {
  const body = bodyOf(form);
  try {
    const would = await ask('POST', 'overrides?dryRun=true', body);
    problem = undefined;
    confirmSet(desk, form, { body, would });
  } catch (error) {
    if (!(error instanceof Problem)) throw error;
    problem = error;
  }
  desk.redraw();
}

/** What is no text in `/v1`. @type {Record<string, (text: string) => unknown>} */
const readers = { requestsPerUnit: Number, expiresAt: (text) => new Date(text).toISOString() };

/** @param {FormData} form */
function bodyOf(form) {
  const { effect, end } = chosen;
  const written = [...form].flatMap(([name, value]) => {
    const text = String(value).trim();
    return text === '' || notOfBody.includes(name) ? [] : [[name, readers[name]?.(text) ?? text]];
  });
  return {
    ...Object.fromEntries(written),
    match: entriesOf(linesOf(form.get('entries'))),
    ...(effect === 'requestsPerUnit' ? {} : { [effect]: true }),
    ...(end === 'permanent' ? { permanent: true } : {}),
  };
}

const notOfBody = ['entries', 'effect', 'end'];

const textOf = (/** @type {FormData} */ form) => (/** @type {string} */ name) =>
  String(form.get(name) ?? '').trim();

/** @param {Desk} desk @param {FormData} form @param {{ body: any, would: any }} asked */
function confirmSet(desk, form, { body, would }) {
  const text = textOf(form);
  const until =
    chosen.end === 'for'
      ? `for ${text('for')}`
      : chosen.end === 'expiresAt'
        ? html`until ${moment(text('expiresAt'))}`
        : 'until it is removed';
  const says = html`<p>${shown(body.domain)} ${entries(body.match)}: <b>${effectText(would)}</b>, ${until}.</p>
    ${would.message ? html`<p class="note warn">${shown(would.message)}</p>` : nothing}
    <p>Every limiter of this store applies it within a second. Counters do not change.</p>`;
  const done = () => {
    desk.say(html`Set: ${entries(body.match)} ${effectText(would)}, ${until}.`);
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
    title: 'Replace the existing override?',
    says: html`${problemNote(conflict)}${says}`,
    verb: 'Replace',
    async act() {
      await ask('PUT', 'overrides', body);
      done();
    },
  });
}
