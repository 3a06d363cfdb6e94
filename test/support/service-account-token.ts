import { createSign } from 'node:crypto';

const part = (value: object | Buffer): string =>
  (Buffer.isBuffer(value) ? value : Buffer.from(JSON.stringify(value))).toString('base64url');

/** A JWT that nobody signed. */
export function unsignedToken(claims: object): string {
  return `${part({ alg: 'RS256' })}.${part(claims)}.${part(Buffer.from('no signature'))}`;
}

/** A JWT as an API server makes them for service accounts, signed by the key that it trusts (PEM). */
export function signedToken(claims: object, key: string): string {
  const text = `${part({ alg: 'RS256', typ: 'JWT' })}.${part(claims)}`;
  return `${text}.${part(createSign('sha256').update(text).sign(key))}`;
}
