/** What is wrong with the PEM files of a TLS listener, told of the one file that is to blame. */
import { createPrivateKey, type KeyObject, X509Certificate } from 'node:crypto';
import { errorText } from '../log/process-error-text.ts';

/** Says which file is to blame, and not where it is: that is its reader's to add. */
export class PemError extends Error {
  override readonly name = 'PemError';
  readonly part: 'cert' | 'key' | 'ca';

  constructor(part: PemError['part'], problem: string) {
    super(problem);
    this.part = part;
  }
}

/** The first certificate of a file, which is the server's own. @throws PemError */
export function readCertificate(part: 'cert' | 'ca', text: string): X509Certificate {
  // Node takes an empty file, as it is for a moment while somebody writes it, for none: every handshake would fail.
  if (text.trim() === '') throw new PemError(part, 'the file is empty');
  if (!/-----BEGIN (X509 |TRUSTED )?CERTIFICATE-----/.test(text)) {
    throw new PemError(part, 'there is no certificate in it (PEM)');
  }
  try {
    return new X509Certificate(text);
  } catch (error) {
    throw new PemError(part, `its certificate cannot be read: ${errorText(error)}`);
  }
}

/** @throws PemError */
export function readPrivateKey(text: string): KeyObject {
  if (text.trim() === '') throw new PemError('key', 'the file is empty');
  if (!/-----BEGIN ([A-Z]+ )*PRIVATE KEY-----/.test(text)) {
    throw new PemError('key', 'there is no private key in it (PEM)');
  }
  if (/-----BEGIN ENCRYPTED PRIVATE KEY-----|^Proc-Type: 4,ENCRYPTED/m.test(text)) {
    throw new PemError(
      'key',
      'its key is encrypted, and there is no setting for a passphrase: store it without one (openssl pkey -in FILE -out FILE)',
    );
  }
  try {
    return createPrivateKey(text);
  } catch (error) {
    throw new PemError('key', `its key cannot be read: ${errorText(error)}`);
  }
}
