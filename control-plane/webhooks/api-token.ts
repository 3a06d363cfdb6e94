import { tokenProblem } from '../../process/bearer-token.ts';
import { SecretError } from './signing-secret.ts';

/** Reads API_TOKEN or its file, white space around it dropped. Throws a SecretError. */
export function parseApiToken(text: string): string {
  const token = text.trim();
  const problem = tokenProblem(token, 1);
  if (problem !== undefined) throw new SecretError(problem);
  return token;
}
