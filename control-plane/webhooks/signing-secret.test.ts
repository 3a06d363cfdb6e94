import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { parseSigningSecrets, signingSecretProblem } from './signing-keys.ts';

const secret = (bytes: number, fill = 7): string => `whsec_${Buffer.alloc(bytes, fill).toString('base64')}`;

describe('parseSigningSecrets', () => {
  it.each([24, 25, 32, 63, 64])('takes %s bytes', (bytes) => {
    expect(parseSigningSecrets(`${secret(bytes)}\n`)).toEqual([secret(bytes)]);
  });

  it('takes further ones that sign as well, each once', () => {
    const [one, two] = [secret(24, 1), secret(32, 2)];
    expect(parseSigningSecrets(`\n${one}\n${two}  ${one}\r\n`)).toEqual([one, two]);
  });

  const base64 = 'must be whsec_ and then base64 (A-Z, a-z, 0-9, + and /, padded with =)';
  it.each([
    ['', 'the signing secret is empty'],
    [' \n', 'the signing secret is empty'],
    ['MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw', 'the signing secret must begin with whsec_'],
    ['WHSEC_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw', 'the signing secret must begin with whsec_'],
    [secret(23), 'the signing secret must hold 24 to 64 bytes, it holds 23'],
    [secret(65), 'the signing secret must hold 24 to 64 bytes, it holds 65'],
    ['whsec_', 'the signing secret must hold 24 to 64 bytes, it holds 0'],
    [secret(25).replace(/=+$/, ''), `the signing secret ${base64}`],
    [`${secret(24)}!`, `the signing secret ${base64}`],
    [`whsec_${Buffer.alloc(32, 255).toString('base64url')}`, `the signing secret ${base64}`],
    [`${secret(24)} nope`, 'signing secret 2 must begin with whsec_'],
    [[1, 2, 3, 4, 5].map((n) => secret(24, n)).join(' '), 'there are 5 signing secrets, the maximum is 4'],
  ])('rejects %j', (text, problem) => {
    expect(signingSecretProblem(text)).toBe(problem);
  });

  it('never shows what it rejects', () => {
    fc.assert(
      fc.property(fc.string({ minLength: 8 }), (noise) => {
        expect(signingSecretProblem(`whsec_S3CRET${noise}`) ?? '').not.toContain('S3CRET');
      }),
    );
  });
});
