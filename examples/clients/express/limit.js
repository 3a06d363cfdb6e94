const url = new URL('/v1/check', process.env.WEIR_URL ?? 'http://localhost:8080');
const token = process.env.WEIR_TOKEN;
const headers = { 'content-type': 'application/json', ...(token && { authorization: `Bearer ${token}` }) };

/**
 * Middleware that asks Weir before Express handles a request. `describe` returns the descriptors to count, or a promise of them. Without
 * descriptors, the request passes. `onError`, 'allow' or 'deny', applies if Weir cannot decide.
 */
export function limit(domain, describe, { onError = 'allow' } = {}) {
  if (!['allow', 'deny'].includes(onError))
    throw new TypeError(`onError must be allow or deny, not ${onError}`);
  return async (request, response, next) => {
    const described = await describe(request);
    if (described.length === 0) return next();
    const answer = await check({ domain, descriptors: described.map((entries) => entries.map(texts)) });
    for (const [name, value] of answer?.headers ?? []) {
      if (name.startsWith('ratelimit') || name === 'retry-after') response.setHeader(name, value);
    }
    if (answer?.isDenied) response.status(429).json({ error: 'too many requests' });
    else if (answer === undefined && onError === 'deny')
      response.status(503).json({ error: 'try again later' });
    else next();
  };
}

/** Converts values to strings, the only values that Weir accepts. A client cannot pass by sending another type. */
function texts(entry) {
  const text = (value) => (typeof value === 'string' ? value : JSON.stringify(value ?? null));
  return Object.fromEntries(Object.entries(entry).map(([key, value]) => [key, text(value)]));
}

/** Undefined if Weir cannot decide. */
async function check(question) {
  try {
    const body = JSON.stringify(question);
    // fetch keeps connections alive.
    const answer = await fetch(url, { method: 'POST', headers, body, signal: AbortSignal.timeout(250) });
    const text = await answer.text();
    if (answer.status === 200 || answer.status === 429)
      return { isDenied: answer.status === 429, headers: answer.headers };
    console.error(`Weir answers ${answer.status}: ${text}`);
    // The content of a request can cause these two, so the request is denied regardless of onError.
    if (answer.status === 400 || answer.status === 413) return { isDenied: true };
  } catch (error) {
    console.error(`Weir does not answer: ${error.message}`);
  }
}
