/** Where events are posted, and how the endpoint is named without its secrets. */

export interface WebhookEndpoint {
  /** Without credentials, which `fetch` refuses to take from a URL. */
  url: string;
  /** Header `authorization`, from the URL's credentials. */
  authorization: string | undefined;
  /** For logs, metrics and errors: credentials, query and whatever in the path may be a secret are masked. */
  label: string;
}

/** Returns what is wrong with an item of WEBHOOK_URLS, without its text, which may contain a password. Undefined if it is valid. */
export function webhookUrlProblem(text: string): string | undefined {
  const url = URL.parse(text);
  if (url === null) return 'is not a URL such as https://host/path';
  if (url.protocol !== 'https:' && url.protocol !== 'http:') return 'must begin with https:// or http://';
  if (url.hash !== '') return 'must not have a fragment (#...)';
  if (!isDecodable(url.username) || !isDecodable(url.password))
    return 'has credentials with a damaged escape';
  return undefined;
}

/** Throws what `webhookUrlProblem` says. */
export function parseEndpoint(text: string): WebhookEndpoint {
  const problem = webhookUrlProblem(text);
  if (problem !== undefined) throw new Error(`a webhook URL ${problem}`);
  const url = new URL(text);
  const { username, password } = url;
  const label = maskedUrl(url);
  url.username = '';
  url.password = '';
  const hasCredentials = username !== '' || password !== '';
  return { url: url.href, authorization: hasCredentials ? basic(username, password) : undefined, label };
}

/** RFC 7617. */
function basic(username: string, password: string): string {
  const credentials = `${decodeURIComponent(username)}:${decodeURIComponent(password)}`;
  return `Basic ${Buffer.from(credentials).toString('base64')}`;
}

function maskedUrl(url: URL): string {
  const hasCredentials = url.username !== '' || url.password !== '';
  const path = url.pathname.split('/').map(maskedSegment).join('/');
  const query = url.search === '' ? '' : '?*****';
  return `${url.protocol}//${hasCredentials ? '*****@' : ''}${url.host}${path}${query}`;
}

/** Many receivers put a token into the path, which may be short: only words that stand in most, and versions, are shown. */
function maskedSegment(segment: string): string {
  return /^(?:|api|events?|hooks?|in|incoming|services|triggers?|weir|webhooks?|workflows|v\d{1,3})$/i.test(
    segment,
  )
    ? segment
    : '*****';
}

function isDecodable(text: string): boolean {
  try {
    decodeURIComponent(text);
    return true;
  } catch {
    return false;
  }
}
