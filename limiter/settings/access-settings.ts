/** Settings of access: TLS of the HTTP listener, and the token of the debug listener. A part of the table in settings.ts. */
import { bool, hostName, list, text } from '../../process/settings/settings-kinds.ts';
import type { SettingNeed } from '../../process/settings/settings-needs.ts';
import { problems, type SettingsError, type SettingsTable } from '../../process/settings/settings-reader.ts';

const overTls: readonly SettingNeed[] = [
  { name: 'HTTP_SERVER_USE_TLS', is: [true], otherwise: 'the limiter answers HTTP in plain text' },
];

export const accessSettings = {
  httpServerUseTls: {
    name: 'HTTP_SERVER_USE_TLS',
    kind: bool(),
    summary: 'Accept HTTP (`PORT`) only over TLS (1.2 or 1.3). Not in the Go service.',
  },
  httpServerTlsCert: {
    name: 'HTTP_SERVER_TLS_CERT',
    needs: overTls,
    kind: text(),
    summary: 'PEM file with its certificate and the intermediate certificates. Not in the Go service.',
  },
  httpServerTlsKey: {
    name: 'HTTP_SERVER_TLS_KEY',
    needs: overTls,
    kind: text(),
    summary:
      'PEM file with the private key of HTTP_SERVER_TLS_CERT. The limiter reads certificate, key and authorities again when they change. Not in the Go service.',
  },
  httpClientTlsCaCert: {
    name: 'HTTP_CLIENT_TLS_CACERT',
    needs: overTls,
    kind: text(),
    summary:
      'PEM file with authorities for the certificates of callers of `/json` and `/v1`; empty: callers need none. Not in the Go service. Without `HTTP_SERVER_USE_TLS=true` the limiter does not start.',
  },
  httpClientTlsSan: {
    name: 'HTTP_CLIENT_TLS_SAN',
    needs: [{ name: 'HTTP_CLIENT_TLS_CACERT', is: 'set' }],
    kind: text(),
    summary:
      'DNS name or IP address that this certificate must contain; empty: any. Not in the Go service. Without `HTTP_CLIENT_TLS_CACERT` the limiter does not start.',
  },
  debugTokenFile: {
    name: 'DEBUG_TOKEN_FILE',
    kind: text(),
    summary:
      'File with the bearer token for the debug listener (16 characters or more), read again when it changes. `/livez` and `/console` never need it. Empty: no token is necessary. Not in the Go service.',
  },
  debugAllowedHosts: {
    name: 'DEBUG_ALLOWED_HOSTS',
    kind: list(hostName(), { max: 100 }),
    default: [] as readonly string[],
    summary:
      'Further host names for [`/v1` and the debug pages](browsers.md). Names other than these and the [default ones](browsers.md) get 403, which protects against DNS rebinding. This does not affect limits. Not in the Go service.',
  },
  httpAllowedHosts: {
    name: 'HTTP_ALLOWED_HOSTS',
    kind: list(hostName(), { max: 100 }),
    default: [] as readonly string[],
    summary:
      'Host names for `/json` and `/v1` at the HTTP listener, besides the [default ones](browsers.md). Others get 403 and count nothing. Add names that a proxy passes on. Empty: all names. Not in the Go service.',
  },
} as const satisfies SettingsTable;

type ServerTlsSettings = {
  readonly [Name in `${'grpc' | 'http'}${'ServerTlsCert' | 'ServerTlsKey' | 'ClientTlsCaCert' | 'ClientTlsSan'}`]?: string;
} & { readonly [Name in `${'grpc' | 'http'}ServerUseTls`]?: boolean };

/** An incomplete TLS setup is an error, because it would leave a port open that should be closed. */
export function serverTlsProblems(settings: ServerTlsSettings, listener: 'grpc' | 'http'): SettingsError[] {
  const isOn = settings[`${listener}ServerUseTls`] ?? false;
  const caCert = settings[`${listener}ClientTlsCaCert`] ?? '';
  const san = settings[`${listener}ClientTlsSan`] ?? '';
  const [server, client] = [`${listener.toUpperCase()}_SERVER`, `${listener.toUpperCase()}_CLIENT`];
  const empty = `must not be empty with ${server}_USE_TLS=true`;
  return problems([
    [isOn && settings[`${listener}ServerTlsCert`] === '', `${server}_TLS_CERT`, empty],
    [isOn && settings[`${listener}ServerTlsKey`] === '', `${server}_TLS_KEY`, empty],
    [
      !isOn && caCert !== '',
      `${client}_TLS_CACERT`,
      `needs ${server}_USE_TLS=true: without TLS callers cannot send a certificate`,
    ],
    [
      san !== '' && caCert === '',
      `${client}_TLS_SAN`,
      `needs ${client}_TLS_CACERT: without it the limiter asks for no certificates`,
    ],
  ]);
}
