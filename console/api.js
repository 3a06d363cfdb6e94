/** Questions to `/v1`, and answers that are asked for again and again while somebody looks at them. */

/** Relative to this module, so that a proxy may put a path before all of it. */
const root = new URL('../../v1/', import.meta.url);
const tokenKey = 'weir-token';
/** Until the next try where nothing answers. */
const retryMs = 2_000;
const timeoutMs = 15_000;

/** What `/v1` rejects, in its words. Status 0: nothing answered. */
export class Problem extends Error {
  /** @param {number} status @param {string} detail @param {Record<string, any>} members */
  constructor(status, detail, members = {}) {
    super(detail);
    this.status = status;
    this.members = members;
  }
}

export const token = {
  /** @param {string} text */
  set(text) {
    sessionStorage.setItem(tokenKey, text);
  },
  get: () => sessionStorage.getItem(tokenKey),
  clear: () => sessionStorage.removeItem(tokenKey),
};

/** @param {Record<string, any>} question Empty ones are left out; lists are repeated. */
export function query(question) {
  const all = new URLSearchParams();
  for (const [name, value] of Object.entries(question)) {
    for (const one of [value].flat())
      if (one !== undefined && one !== '' && one !== false) all.append(name, one);
  }
  return all.toString();
}

/**
 * @param {'GET' | 'POST' | 'PUT' | 'DELETE'} method
 * @param {string} path Below `/v1/`, with its query.
 * @param {any} [body]
 * @returns {Promise<any>} Rejects with a Problem.
 */
export async function ask(method, path, body) {
  const held = token.get();
  const response = await fetch(new URL(path, root), {
    method,
    cache: 'no-store',
    headers: {
      ...(held === null ? {} : { Authorization: `Bearer ${held}` }),
      ...(method === 'GET' ? {} : { 'Content-Type': 'application/json' }),
    },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    signal: AbortSignal.timeout(timeoutMs),
  }).catch(() => {
    throw new Problem(0, 'no answer');
  });
  const text = await response.text().catch(() => {
    throw new Problem(0, 'the answer broke off');
  });
  const answer = jsonOf(text);
  if (response.ok && answer !== undefined) return answer;
  // In the words of a proxy: what stands behind it did not answer.
  if (response.status >= 500 && answer === undefined) throw new Problem(0, 'no answer');
  throw new Problem(
    response.status,
    answer?.detail ?? answer?.title ?? (text.slice(0, 300) || `status ${response.status}`),
    answer ?? {},
  );
}

/** @param {string} text @returns {any} */
function jsonOf(text) {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/**
 * @typedef {object} Held
 * @property {any} value The newest answer; undefined before the first.
 * @property {Problem | undefined} problem Of the newest try.
 * @property {boolean} isUsed By what was drawn last.
 * @property {boolean} isBusy
 * @property {number} everyMs
 * @property {number} dueMs
 */

/**
 * What the page shows of `/v1`: drawn things name the path, and it is asked for as long as they are drawn. While nothing
 * answers, and before the token was taken, one question goes alone: a wrong token is not to count as many.
 */
export class Live {
  /** @type {Map<string, Held>} */
  #held = new Map();
  #changed;
  #isOpen = false;
  /** Since when nothing answers. @type {Date | undefined} */
  silentSince;
  needsToken = false;

  /** @param {() => void} changed */
  constructor(changed) {
    this.#changed = changed;
    setInterval(() => this.#pump(), 200);
  }

  /** @param {string} path @param {number} everyMs 0: once. @returns {Held} */
  use(path, everyMs) {
    const held = this.#held.get(path) ?? {
      value: undefined,
      problem: undefined,
      isUsed: true,
      isBusy: false,
      everyMs,
      dueMs: 0,
    };
    held.isUsed = true;
    held.everyMs = everyMs;
    this.#held.set(path, held);
    this.#pump();
    return held;
  }

  /** After a drawing: what it did not use is forgotten. */
  sweep() {
    for (const [path, held] of this.#held) {
      if (!held.isUsed) this.#held.delete(path);
      held.isUsed = false;
    }
  }

  /** Asks for everything now, with the token of now. */
  refresh() {
    this.needsToken = false;
    for (const held of this.#held.values()) held.dueMs = 0;
    this.#pump();
  }

  #pump() {
    if (document.hidden || this.needsToken) return;
    const all = [...this.#held];
    for (const [path, held] of all) {
      const isTurn = this.#isOpen || all.every(([, { isBusy }]) => !isBusy);
      if (isTurn && !held.isBusy && held.dueMs <= Date.now()) this.#ask(path, held);
    }
  }

  /** @param {string} path @param {Held} held */
  async #ask(path, held) {
    held.isBusy = true;
    const startMs = Date.now();
    try {
      held.value = await ask('GET', path);
      held.problem = undefined;
    } catch (error) {
      held.problem = error instanceof Problem ? error : new Problem(0, String(error));
    }
    held.isBusy = false;
    const { status = 200, members } = held.problem ?? {};
    this.#isOpen = status !== 0 && status !== 401;
    this.needsToken = status === 401;
    this.silentSince = status === 0 ? (this.silentSince ?? new Date()) : undefined;
    // Requests that take long are rare.
    const everyMs = Math.max(held.everyMs, 10 * (Date.now() - startMs));
    const retry = Math.max(retryMs, everyMs, 1_000 * (members?.['retryAfterSeconds'] ?? 0));
    const isDone = held.everyMs === 0 && this.#isOpen;
    held.dueMs = isDone ? Number.POSITIVE_INFINITY : Date.now() + (status === 200 ? everyMs : retry);
    this.#changed();
  }
}
