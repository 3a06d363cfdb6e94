const url = new URL('/v1/check', process.env.WEIR_URL ?? 'http://localhost:8080');
const token = process.env.WEIR_TOKEN;
const headers = { 'content-type': 'application/json', ...(token && { authorization: `Bearer ${token}` }) };

/** Asks Weir before a request goes on. `describe` says what of the request is counted. */
export function limit(domain, describe) {
  return async (request, response, next) => {
    const answer = await check({ domain, descriptors: describe(request) });
    for (const [name, value] of answer?.headers ?? []) {
      if (name.startsWith('ratelimit') || name === 'retry-after') response.setHeader(name, value);
    }
    if (answer?.status === 429) response.status(429).json({ error: 'too many requests' });
    else next();
  };
}

/** Undefined where nobody can say: the request passes. */
async function check(question) {
  try {
    const body = JSON.stringify(question);
    // fetch keeps connections alive.
    const answer = await fetch(url, { method: 'POST', headers, body, signal: AbortSignal.timeout(250) });
    const text = await answer.text();
    if (answer.status === 200 || answer.status === 429) return answer;
    console.error(`Weir answers ${answer.status}: ${text}`);
  } catch (error) {
    console.error(`Weir does not answer: ${error.message}`);
  }
}
