/** Turns values into text. Text of callers is never markup, and its invisible characters become visible. */
import { html } from '../node_modules/lit-html/lit-html.js';

/** Control characters, zero-width ones, and those that change the direction of what follows them. */
const odd = /([\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Co}\p{Cs}])/u;

/** What looks like an address, of either kind, with its prefix length: it stays in one line. */
const address = /((?:[\da-f]*:){2,7}[\da-f.]*(?:\/\d+)?|\d+(?:\.\d+){3}(?:\/\d+)?)/i;

/** Caller-chosen text. @param {unknown} value */
export function shown(value) {
  const parts = String(value ?? '').split(odd);
  return html`<bdi class="own">${parts.length === 1 && parts[0] === '' ? html`<i class="faint">empty</i>` : parts.map((part, at) => (at % 2 === 0 ? unbroken(part) : html`<span class="odd whole">${codePoint(part)}</span>`))}</bdi>`;
}

/** @param {string} text */
const unbroken = (text) =>
  text
    .split(address)
    .map((part, at) => (at % 2 === 0 ? part : html`<wbr><span class="whole">${part}</span>`));

/** @param {string} character */
const codePoint = (character) =>
  `U+${(character.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, '0')}`;

/** @param {{key: string, value?: string, valueHash?: string, valueBegins?: string, pattern?: string}[] | null | undefined} list */
export function entries(list) {
  return html`<span class="entries">${(list ?? []).map(
    (one) => html`<span class="entry"><span class="key">${shown(one.key)}</span>${entryValue(one)}</span>`,
  )}</span>`;
}

/** @param {{value?: string, valueHash?: string, valueBegins?: string, pattern?: string}} entry */
function entryValue({ value, valueHash, valueBegins, pattern }) {
  if (value !== undefined) return html`<span class="equals">=</span><wbr>${shown(value)}`;
  if (valueHash !== undefined) {
    return html`<span class="equals">=</span><wbr>${shown(valueBegins ?? '')}<abbr class="odd" title=${`SHA-256 ${valueHash}`}>hashed ${valueHash.slice(0, 8)}</abbr>`;
  }
  return pattern === undefined ? '' : html`<span class="equals">=</span><wbr>${shown(pattern)}`;
}

/** Whether each value is known, so that the counter can be named. @param {any[]} list */
export const areNamed = (list) =>
  list.length > 0 && list.every(({ value, key }) => value !== undefined && !key.includes('='));

/** As `/v1` takes them: `key=value`. @param {any[]} list @returns {string[]} */
export const entryTexts = (list) => list.map(({ key, value = '' }) => `${key}=${value}`);

/** One entry a line. @param {FormDataEntryValue | null} text @returns {string[]} */
export const linesOf = (text) =>
  String(text ?? '')
    .split('\n')
    .map((line) => line.trim())
    .filter((line) => line !== '');

/** @param {string[]} texts */
export const entriesOf = (texts) =>
  texts.map((text) => {
    const at = text.indexOf('=');
    return at === -1 ? { key: text, value: '' } : { key: text.slice(0, at), value: text.slice(at + 1) };
  });

/** @param {number | null | undefined} value */
export function number(value) {
  if (value === null || value === undefined) return '–';
  if (value > 0 && value < 10 && !Number.isInteger(value)) return value.toFixed(value < 1 ? 2 : 1);
  return Math.round(value).toLocaleString('en').replaceAll(',', '\u202f');
}

/** @param {number | null | undefined} value */
export const milliseconds = (value) =>
  value === null || value === undefined ? '–' : `${value < 10 ? value.toFixed(1) : Math.round(value)} ms`;

/** The window of rates, which the header and the views share. @param {{ seconds: number }} rates */
export const measured = ({ seconds }) =>
  seconds === 0 ? 'not measured yet' : `in the last ${duration(seconds)}`;

/** @param {number | null | undefined} value */
export function duration(value) {
  if (value === null || value === undefined) return '–';
  const seconds = Math.max(0, Math.round(value));
  if (seconds < 60) return `${seconds} s`;
  const [large, small, name, rest] =
    seconds < 3_600
      ? [60, 1, 'min', 's']
      : seconds < 86_400
        ? [3_600, 60, 'h', 'min']
        : [86_400, 3_600, 'd', 'h'];
  const more = Math.floor((seconds % large) / small);
  return `${Math.floor(seconds / large)}\u00a0${name}${more === 0 ? '' : ` ${more}\u00a0${rest}`}`;
}

/** The time of day, and the day where it is another one. @param {string | number | Date | null | undefined} at */
export function moment(at) {
  if (at === null || at === undefined) return '–';
  const date = new Date(at);
  if (Number.isNaN(date.getTime())) return String(at);
  const isToday = date.toDateString() === new Date().toDateString();
  const text = `${isToday ? '' : `${date.toLocaleDateString('sv')} `}${date.toLocaleTimeString('sv')}`;
  return html`<time datetime=${date.toISOString()} title=${date.toISOString()}>${text}</time>`;
}

/** Empty for the one that limits have where they name none. @param {string | null | undefined} algorithm */
export const algorithmText = (algorithm) =>
  !algorithm || algorithm === 'fixed_window' ? '' : algorithm.replaceAll('_', ' ');

/** Returns the limiter's description of a limit, with digits in groups. @param {{ words: string }} limit Of a rule. */
export const limitText = ({ words }) => grouped(words);

/** @param {string} words */
const grouped = (words) => words.replace(/\d{4,}/g, (digits) => number(Number(digits)));

/** What a limit counts over, behind “per”: `minute`, `5 minutes`, `calendar month`. @param {any} limit Of a rule. */
export const windowName = ({ unit, multiplier, calendar }) =>
  calendar ? `calendar ${calendar.unit}` : multiplier === 1 ? unit : `${number(multiplier)} ${unit}s`;

/** `Requests`, or what its hits are. Undefined stands for no limit. @param {any} limit */
export function countedName(limit) {
  const name = limit?.hitsUnit || 'requests';
  return name.charAt(0).toUpperCase() + name.slice(1);
}

/** The limit of a counter or of requests over limit, with the unit of its hits if they are not requests. @param {any} of */
export const limitWithUnit = ({ limit, hitsUnit }) => `${number(limit)}${hitsUnit ? ` ${hitsUnit}` : ''}`;

/** `calendar month (Europe/Zurich, from day 15)`. @param {any} calendar */
export const calendarWords = ({ unit, timezone, startsOn }) =>
  `calendar ${unit} (${timezone}${startsOn === 1 ? '' : `, from day ${startsOn}`})`;

/** @param {any} override */
export function effectText({ words, requestsPerUnit, unit, unlimited, shadow, block, grant, limit }) {
  const of = limit ? ` (limit ${limit})` : '';
  if (words !== undefined) return `${grouped(words)}${of}`;
  if (unlimited) return `no limit${of}`;
  if (shadow) return `counts, but never over limit${of}`;
  if (block) return 'denies all requests';
  if (grant !== undefined && grant !== null) return `${number(grant)} more, once${of}`;
  return `${number(requestsPerUnit)}${unit ? ` per ${unit}` : ' in place of the limit'}${of}`;
}
