/**
 * REDIS_URL as logs and errors may show it: `*****` in place of credentials, in every item of a list. Masks too much
 * rather than too little, whatever the text looks like.
 */
export function maskRedisUrl(url: string): string {
  // Not split at commas: a password may hold one.
  return url
    .split(/(?=rediss?:\/\/)/i)
    .map(maskItem)
    .join('');
}

function maskItem(item: string): string {
  const scheme = /^[a-z]+:\/\//i.exec(item)?.[0] ?? '';
  const hostAt = item.lastIndexOf('@');
  if (hostAt !== -1) return maskRest(`${scheme}*****`, item.slice(hostAt));
  // Without an `@` what looks like a host may be a password that lost its host.
  const [, authority = '', rest = ''] = /^([^/?]*)(.*)$/s.exec(item.slice(scheme.length)) ?? [];
  const isHost = scheme === '' || /^(?:\[[^\]]*\]|[^:]*)(?::\d*)?$/.test(authority.replace(/,$/, ''));
  if (scheme === '') return maskQuery(item);
  return maskRest(scheme, `${isHost ? authority : '*****'}${rest}`);
}

/** A path that is no number of a database may be a password that had a `/`. */
function maskRest(start: string, rest: string): string {
  const [, authority = '', path = '', query = ''] = /^([^/?]*)([^?]*)(.*)$/s.exec(rest) ?? [];
  const isDb = /^(?:\/\d*)?,?$/.test(path);
  return maskQuery(`${start}${authority}${isDb ? path : '/*****'}${query}`);
}

/** Names may be escaped, so every value counts as a secret but that of `db`. */
function maskQuery(text: string): string {
  return text.replace(/([?&](?!db=\d+(?:$|[&,]))[^=&]*=)[^&]*/gi, '$1*****');
}
