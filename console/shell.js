/** The frame of a page: views by the address's hash, what stands above them, the token, light and dark, and a server that falls silent. */
import { html, nothing, render } from '../node_modules/lit-html/lit-html.js';
import { Live, query, token } from './api.js';
import { field, submitted } from './parts.js';
import { moment } from './text.js';

/**
 * @typedef {object} Desk What a view gets.
 * @property {(path: string, everyMs: number) => import('./api.js').Held} live
 * @property {URLSearchParams} params Of the address.
 * @property {(view: string, question?: Record<string, any>) => void} go
 * @property {(text: unknown, standing?: 'good' | 'warn') => void} say What became of a change.
 * @property {() => void} redraw
 * @property {() => void} refresh
 */
/**
 * @typedef {object} View
 * @property {string} id
 * @property {string} label
 * @property {(desk: Desk) => boolean} [isShown] Whether the process has it; defaults to true. An address of the view works all the same.
 * @property {(desk: Desk) => unknown} draw
 */

/** Returns the link to a view. @param {string} view @param {Record<string, any>} [question] */
export const addressOf = (view, question = {}) => {
  const text = query(question);
  return `#/${view}${text === '' ? '' : `?${text}`}`;
};

const themes = ['auto', 'light', 'dark'];
const themeKey = 'weir-theme';

/**
 * @param {object} page
 * @param {string} page.kind `limiter`, for people.
 * @param {View[]} page.views The first is where one arrives.
 * @param {(desk: Desk) => unknown} page.summary The line that is seen from everywhere.
 */
export function startConsole({ kind, views, summary }) {
  const root = document.createElement('div');
  root.id = 'console';
  document.body.append(root);
  let isDue = false;
  /** @type {{ text: unknown, standing: string } | undefined} */
  let message;
  const redraw = () => {
    if (isDue) return;
    isDue = true;
    queueMicrotask(() => {
      isDue = false;
      draw();
    });
  };
  const live = new Live(redraw);
  const place = () => {
    const [, id = '', text = ''] = /^#\/([a-z]*)\??(.*)$/.exec(location.hash) ?? [];
    return { view: views.find((one) => one.id === id) ?? views[0], params: new URLSearchParams(text) };
  };
  /** @type {Omit<Desk, 'params'>} */
  const desk = {
    live: (path, everyMs) => live.use(path, everyMs),
    go: (view, question) => {
      location.hash = addressOf(view, question);
    },
    say: (text, standing = 'good') => {
      message = text === undefined ? undefined : { text, standing };
      redraw();
    },
    redraw,
    refresh: () => live.refresh(),
  };

  function draw() {
    const { view, params } = place();
    if (view === undefined) return;
    const at = { ...desk, params };
    document.title = `${view.label} – Weir ${kind}`;
    render(
      html`
      <a class="skip" href="#main" @click=${toMain}>Skip to content</a>
      <header>
        <a class="name" href=${addressOf(views[0]?.id ?? '')}><img src="console/files/icon.svg" alt="" width="22" height="22">Weir <span>${kind}</span></a>
        <div class="summary">${live.silentSince ? html`<span class="badge bad">no answer</span>` : summary(at)}</div>
        <button class="theme" title="Light, dark, or as the system" @click=${nextTheme}>${themeName()}</button>
      </header>
      <nav aria-label="Views">${views.filter(({ isShown }) => isShown?.(at) ?? true).map((one) => html`<a href=${addressOf(one.id)} aria-current=${one === view ? 'page' : nothing}>${one.label}</a>`)}</nav>
      <main id="main" tabindex="-1" class=${live.silentSince ? 'stale' : ''}>
        ${live.silentSince ? silence(live.silentSince) : nothing}
        <div role="status">${message === undefined ? nothing : html`<p class="note ${message.standing}">${message.text} <button class="quiet" aria-label="Dismiss" @click=${() => desk.say(undefined)}>×</button></p>`}</div>
        <h1>${view.label}</h1>
        ${live.needsToken ? tokenForm() : view.draw(at)}
      </main>`,
      root,
    );
    live.sweep();
  }

  const silence = (/** @type {Date} */ since) =>
    html`<p class="note bad" role="alert">The ${kind} has not answered since ${moment(since)}. This is older data. The page tries again every 2 s.</p>`;

  const tokenForm = () => html`
    <form class="panel narrow" @submit=${submitted((form) => {
      token.set(String(form.get('token')));
      live.refresh();
    })}>
      <p>${token.get() === null ? html`This ${kind} requires a token: the one in <code>DEBUG_TOKEN_FILE</code>, or the token of a caller in <code>CALLERS_FILE</code>.` : 'This token is not accepted. Enter another one.'}</p>
      ${field('Token', html`<input name="token" type="password" required autocomplete="off" autofocus>`, 'This tab stores it until you close it.')}
      <div class="buttons"><button class="does">Go on</button></div>
    </form>`;

  const nextTheme = () => {
    const next = themes[(themes.indexOf(themeOf()) + 1) % themes.length] ?? 'auto';
    localStorage.setItem(themeKey, next);
    showTheme();
    redraw();
  };

  window.addEventListener('hashchange', () => {
    message = undefined;
    // A question of the view before.
    for (const dialog of document.querySelectorAll('dialog')) dialog.close();
    draw();
    document.getElementById('main')?.focus();
    scrollTo(0, 0);
  });
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', showTheme);
  // Times that run down.
  setInterval(redraw, 1_000);
  showTheme();
  draw();
}

/** @param {Event} event */
function toMain(event) {
  event.preventDefault();
  document.getElementById('main')?.focus();
}

const themeOf = () => localStorage.getItem(themeKey) ?? 'auto';
const themeName = () => ({ auto: 'Auto', light: 'Light', dark: 'Dark' })[themeOf()] ?? 'Auto';

function showTheme() {
  document.documentElement.dataset['theme'] = themeOf();
  window.dispatchEvent(new Event('weir-theme'));
}
