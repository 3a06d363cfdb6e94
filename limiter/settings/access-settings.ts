/** Who is let in: CALLERS_FILE, TLS of the HTTP listener, the token of the debug listener. A part of the table in settings.ts. */
import { bool, text } from '../../process/settings/settings-kinds.ts';
import type { SettingNeed } from '../../process/settings/settings-needs.ts';
import type { SettingsError, SettingsOf, SettingsTable } from '../../process/settings/settings-reader.ts';

const overTls: readonly SettingNeed[] = [
  { name: 'HTTP_SERVER_USE_TLS', is: [true], otherwise: 'HTTP is answered in plain text' },
];

export const accessSettings = {
  callersFile: {
    name: 'CALLERS_FILE',
    kind: text(),
    default: '',
    summary:
      'YAML file that says [who may ask what](callers.md), read again when it changes; empty: whoever reaches a port may ask. Not in the Go service.',
  },
  httpServerUseTls: {
    name: 'HTTP_SERVER_USE_TLS',
    kind: bool(),
    default: false,
    summary: 'Answer HTTP (`PORT`) over TLS (1.2 or 1.3) only. Not in the Go service.',
  },
  httpServerTlsCert: {
    name: 'HTTP_SERVER_TLS_CERT',
    needs: overTls,
    kind: text(),
    default: '',
    summary: 'PEM file with its certificate and those between it and its authority. Not in the Go service.',
  },
  httpServerTlsKey: {
    name: 'HTTP_SERVER_TLS_KEY',
    needs: overTls,
    kind: text(),
    default: '',
    summary:
      'PEM file with its key. Certificate, key and authorities are read again when they change. Not in the Go service.',
  },
  httpClientTlsCaCert: {
    name: 'HTTP_CLIENT_TLS_CACERT',
    needs: overTls,
    kind: text(),
    default: '',
    summary:
      'PEM file with authorities: callers of `/json` must show a certificate of one of them, `/healthcheck` and `/livez` need none; empty: nobody does. Not in the Go service. Without `HTTP_SERVER_USE_TLS=true` it stops the start.',
  },
  httpClientTlsSan: {
    name: 'HTTP_CLIENT_TLS_SAN',
    needs: [{ name: 'HTTP_CLIENT_TLS_CACERT', is: 'set' }],
    kind: text(),
    default: '',
    summary:
      'DNS name (or IP address) that this certificate must have; empty: any. Not in the Go service. Without `HTTP_CLIENT_TLS_CACERT` it stops the start.',
  },
  debugTokenFile: {
    name: 'DEBUG_TOKEN_FILE',
    kind: text(),
    default: '',
    summary:
      'File with the bearer token that the debug listener asks for, for everything but `/livez`; white space around it is dropped, it has at least 16 characters, and is read again when it changes. Empty: nobody is asked. Not in the Go service.',
  },
} as const satisfies SettingsTable;

export type AccessSettings = SettingsOf<typeof accessSettings>;

/** What is wrong with the values together: half a TLS setup would leave open what somebody meant to close. */
export function accessSettingsProblems(settings: Partial<AccessSettings>): SettingsError[] {
  const { httpServerUseTls = false, httpServerTlsCert, httpServerTlsKey } = settings;
  const { httpClientTlsCaCert = '', httpClientTlsSan = '' } = settings;
  const problems: SettingsError[] = [];
  const refuse = (variable: string, problem: string): void => {
    problems.push({ variable, message: `${variable}: ${problem}` });
  };
  if (httpServerUseTls && httpServerTlsCert === '') {
    refuse('HTTP_SERVER_TLS_CERT', 'must not be empty with HTTP_SERVER_USE_TLS=true');
  }
  if (httpServerUseTls && httpServerTlsKey === '') {
    refuse('HTTP_SERVER_TLS_KEY', 'must not be empty with HTTP_SERVER_USE_TLS=true');
  }
  if (!httpServerUseTls && httpClientTlsCaCert !== '') {
    refuse(
      'HTTP_CLIENT_TLS_CACERT',
      'needs HTTP_SERVER_USE_TLS=true: without TLS no caller shows a certificate',
    );
  }
  if (httpClientTlsSan !== '' && httpClientTlsCaCert === '') {
    refuse('HTTP_CLIENT_TLS_SAN', 'needs HTTP_CLIENT_TLS_CACERT: without it no caller shows a certificate');
  }
  return problems;
}
