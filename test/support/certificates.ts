import { execFileSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

/** Paths of a certificate and its key, PEM. */
export interface CertificatePair {
  certFile: string;
  keyFile: string;
}

export interface CertificateWish {
  /** Common name of the subject, and of the files. */
  name: string;
  /** As openssl spells them: `DNS:localhost,IP:127.0.0.1`. */
  alternativeNames?: string;
  /** How many days it is good for; below 0: it ended so long ago. Defaults to 2. */
  days?: number;
}

/** An authority of the test's own. */
export interface TestAuthority {
  caFile: string;
  issue(wish: CertificateWish): CertificatePair;
}

const newKey = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes'];

/** Writes its files into `folder`. `openssl` is the path of the program. */
export function createAuthority(openssl: string, folder: string, name: string): TestAuthority {
  const at = (file: string): string => join(folder, file);
  const run = (...args: string[]): void => {
    execFileSync(openssl, args, { stdio: 'pipe' });
  };
  const [caFile, caKeyFile] = [at(`${name}.pem`), at(`${name}.key`)];
  run('req', '-x509', ...newKey, '-days', '2', '-subj', `/CN=${name}`, '-keyout', caKeyFile, '-out', caFile);
  const emptyConfig = at('openssl.cnf');
  writeFileSync(emptyConfig, '[req]\ndistinguished_name = name\n[name]\n');
  return {
    caFile,
    issue({ name: subject, alternativeNames, days = 2 }) {
      const [certFile, keyFile] = [at(`${subject}.pem`), at(`${subject}.key`)];
      if (days >= 0) {
        const names = alternativeNames === undefined ? [] : ['-addext', `subjectAltName=${alternativeNames}`];
        const subjectArgs = ['-subj', `/CN=${subject}`, '-days', String(days), ...names];
        const signer = ['-x509', '-CA', caFile, '-CAkey', caKeyFile];
        run(
          'req',
          '-config',
          emptyConfig,
          ...signer,
          ...newKey,
          ...subjectArgs,
          '-keyout',
          keyFile,
          '-out',
          certFile,
        );
        return { certFile, keyFile };
      }
      // One that has ended takes a request of its own.
      const [requestFile, extensionsFile] = [at(`${subject}.csr`), at(`${subject}.ext`)];
      run('req', ...newKey, '-subj', `/CN=${subject}`, '-keyout', keyFile, '-out', requestFile);
      writeFileSync(
        extensionsFile,
        alternativeNames === undefined ? '' : `subjectAltName=${alternativeNames}\n`,
      );
      const signer = ['-CA', caFile, '-CAkey', caKeyFile, '-CAcreateserial', '-days', String(days)];
      run('x509', '-req', '-in', requestFile, ...signer, '-extfile', extensionsFile, '-out', certFile);
      return { certFile, keyFile };
    },
  };
}

/** Puts what is in these files into those, key last, as a rotation in place does. */
export function overwritePair(from: CertificatePair, to: CertificatePair): void {
  writeFileSync(to.certFile, readFileSync(from.certFile));
  writeFileSync(to.keyFile, readFileSync(from.keyFile));
}
