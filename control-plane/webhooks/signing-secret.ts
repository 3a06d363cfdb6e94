/** The secret that deliveries are signed with, as the Standard Webhooks write it: `whsec_` and base64. */

/** A value that should be a secret is not one; the message never shows it. */
export class SecretError extends Error {
  override readonly name = 'SecretError';
}

const prefix = 'whsec_';
const leastBytes = 24;
const mostBytes = 64;
/** Ours: the one in use and some that receivers may still hold. */
const mostSecrets = 4;

/**
 * Reads a variable or a file: the secret, and after it, parted by white space, others that sign beside it as long as
 * they stand there. Throws a SecretError.
 */
export function parseSigningSecrets(text: string): string[] {
  const secrets = text.split(/\s+/).filter((part) => part !== '');
  if (secrets.length === 0) throw new SecretError('the signing secret is empty');
  if (secrets.length > mostSecrets) {
    throw new SecretError(`there are ${secrets.length} signing secrets, the most is ${mostSecrets}`);
  }
  secrets.forEach((secret, index) => {
    const problem = secretProblem(secret);
    if (problem === undefined) return;
    const which = secrets.length === 1 ? 'the signing secret' : `signing secret ${index + 1}`;
    throw new SecretError(`${which} ${problem}`);
  });
  return [...new Set(secrets)];
}

/** For checks of settings: what `parseSigningSecrets` would say. */
export function signingSecretProblem(text: string): string | undefined {
  try {
    parseSigningSecrets(text);
    return undefined;
  } catch (error) {
    if (error instanceof SecretError) return error.message;
    throw error;
  }
}

function secretProblem(secret: string): string | undefined {
  if (!secret.startsWith(prefix)) return `must begin with ${prefix}`;
  const encoded = secret.slice(prefix.length);
  const bytes = Buffer.from(encoded, 'base64');
  // Node skips what is not base64: only what it writes again the same way is.
  if (bytes.toString('base64') !== encoded) {
    return `must be ${prefix} and then base64 (A-Z, a-z, 0-9, + and /, filled up with =)`;
  }
  if (bytes.length >= leastBytes && bytes.length <= mostBytes) return undefined;
  return `must hold ${leastBytes} to ${mostBytes} bytes, it holds ${bytes.length}`;
}
