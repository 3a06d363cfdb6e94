/** Which path a request asks for, with the rules of Go's router. */

export interface RequestPath {
  /** Decoded, as it was sent. */
  path: string;
  /** The same without empty, `.` and `..` segments. Another one than `path` calls for a redirect. */
  clean: string;
  query: URLSearchParams;
  /** Where the redirect goes. */
  location: string;
}

/** Undefined when the target is damaged. */
export function requestPath(target: string): RequestPath | undefined {
  const origin = target.startsWith('/') ? target : targetOfProxyRequest(target);
  if (origin === undefined) return undefined;
  const mark = origin.indexOf('?');
  const encoded = mark === -1 ? origin : origin.slice(0, mark);
  const search = mark === -1 ? '' : origin.slice(mark);
  const path = decoded(encoded);
  if (path === undefined) return undefined;
  const clean = cleanPath(path);
  return { path, clean, query: new URLSearchParams(search), location: encodeURI(clean) + search };
}

/** RFC 9112, section 3.2.2: a server takes the absolute form, too. */
function targetOfProxyRequest(target: string): string | undefined {
  const match = /^https?:\/\/[^/?#]+(.*)$/i.exec(target);
  if (match === null) return undefined;
  const rest = match[1] ?? '';
  return rest.startsWith('/') ? rest : `/${rest}`;
}

function decoded(path: string): string | undefined {
  try {
    return decodeURIComponent(path);
  } catch {
    return undefined;
  }
}

function cleanPath(path: string): string {
  const segments: string[] = [];
  for (const segment of path.split('/')) {
    if (segment === '..') segments.pop();
    else if (segment !== '' && segment !== '.') segments.push(segment);
  }
  const clean = `/${segments.join('/')}`;
  return path.endsWith('/') && clean !== '/' ? `${clean}/` : clean;
}
