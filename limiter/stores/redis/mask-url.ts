/**
 * REDIS_URL as logs and errors may show it: `*****` in place of credentials, in every item of a list. Masks too much
 * rather than too little, whatever the text looks like.
 */
export function maskRedisUrl(url: string): string {
  // Not split at commas: a password may hold one.
  return url
    .split(/(?=[a-z]+:\/\/)/i)
    .map(maskItem)
    .join('');
}

function maskItem(item: string): string {
  const hostAt = item.lastIndexOf('@');
  const scheme = /^[a-z]+:\/\//i.exec(item)?.[0] ?? '';
  const shown = hostAt === -1 ? item : `${scheme}*****${item.slice(hostAt)}`;
  return shown.replace(/([?&](?:username|password)=)[^&]*/gi, '$1*****');
}
