import { readFileSync } from 'node:fs';
import { createSecureContext } from 'node:tls';
import { systemErrorReason } from '../../process/log/error-text.ts';
import { errorText } from '../../process/log/process-error-text.ts';
import { type FlagTypes, type ParsedFlags, UsageError } from '../shared/flags.ts';

/** What a TLS connection is made with, PEM. */
export interface AskTls {
  /** Undefined: the authorities that Node knows. */
  ca: Buffer | undefined;
  /** With `key`, or neither. */
  cert: Buffer | undefined;
  key: Buffer | undefined;
}

/** As the Go client names them. */
export const askTlsFlags = {
  'grpc-use-tls': { type: 'boolean' },
  'grpc-server-ca-file': { type: 'string' },
  'grpc-cert-file': { type: 'string' },
  'grpc-key-file': { type: 'string' },
} as const satisfies FlagTypes;

/** Undefined without --grpc-use-tls, which the others need. @throws UsageError when a file is not what it must be. */
export function askTls(flags: ParsedFlags): AskTls | undefined {
  const files = ['grpc-server-ca-file', 'grpc-cert-file', 'grpc-key-file'] as const;
  if (!flags.on('grpc-use-tls')) {
    const idle = files.find((name) => flags.text(name) !== undefined);
    if (idle === undefined) return undefined;
    throw new UsageError(`--${idle} has no effect without --grpc-use-tls`);
  }
  const [ca, cert, key] = files.map((name) => readPem(name, flags.text(name)));
  if ((cert === undefined) !== (key === undefined)) {
    throw new UsageError('--grpc-cert-file and --grpc-key-file need each other');
  }
  checked('--grpc-server-ca-file', { ca });
  checked('--grpc-cert-file and --grpc-key-file', { cert, key });
  return { ca, cert, key };
}

function readPem(flag: string, path: string | undefined): Buffer | undefined {
  if (path === undefined) return undefined;
  let pem: Buffer;
  try {
    pem = readFileSync(path);
  } catch (error) {
    throw new UsageError(`--${flag}: ${path}: ${systemErrorReason(error)}`);
  }
  // OpenSSL takes authorities without any certificate among them, and then trusts nobody.
  if (!pem.includes('-----BEGIN ')) throw new UsageError(`--${flag}: ${path}: is not PEM`);
  return pem;
}

function checked(flags: string, credentials: Parameters<typeof createSecureContext>[0]): void {
  try {
    createSecureContext(credentials);
  } catch (error) {
    throw new UsageError(`${flags}: ${errorText(error)}`);
  }
}
