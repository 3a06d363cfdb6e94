/** Who is let in: CALLERS_FILE, TLS of the HTTP listener, the token of the debug listener. A part of the table in settings.ts. */
import { bool, hostName, list, text } from '../../process/settings/settings-kinds.ts';
import type { SettingNeed } from '../../process/settings/settings-needs.ts';
import { problems, type SettingsError, type SettingsTable } from '../../process/settings/settings-reader.ts';

const overTls: readonly SettingNeed[] = [
  { name: 'HTTP_SERVER_USE_TLS', is: [true], otherwise: 'HTTP is answered in plain text' },
];

export const accessSettings = {
  callersFile: {
    name: 'CALLERS_FILE',
    kind: text(),
    summary:
      'YAML file that says [who may ask what](callers.md), read again when it changes; empty: whoever reaches a port may ask. Not in the Go service.',
  },
  httpServerUseTls: {
    name: 'HTTP_SERVER_USE_TLS',
    kind: bool(),
    summary: 'Answer HTTP (`PORT`) over TLS (1.2 or 1.3) only. Not in the Go service.',
  },
  httpServerTlsCert: {
    name: 'HTTP_SERVER_TLS_CERT',
    needs: overTls,
    kind: text(),
    summary: 'PEM file with its certificate and those between it and its authority. Not in the Go service.',
  },
  httpServerTlsKey: {
    name: 'HTTP_SERVER_TLS_KEY',
    needs: overTls,
    kind: text(),
    summary:
      'PEM file with its key. Certificate, key and authorities are read again when they change. Not in the Go service.',
  },
  httpClientTlsCaCert: {
    name: 'HTTP_CLIENT_TLS_CACERT',
    needs: overTls,
    kind: text(),
    summary:
      'PEM file with authorities: callers of `/json` and `/v1` must show a certificate of one of them, `/healthcheck` and `/livez` need none; empty: nobody does. Not in the Go service. Without `HTTP_SERVER_USE_TLS=true` it stops the start.',
  },
  httpClientTlsSan: {
    name: 'HTTP_CLIENT_TLS_SAN',
    needs: [{ name: 'HTTP_CLIENT_TLS_CACERT', is: 'set' }],
    kind: text(),
    summary:
      'DNS name (or IP address) that this certificate must have; empty: any. Not in the Go service. Without `HTTP_CLIENT_TLS_CACERT` it stops the start.',
  },
  debugTokenFile: {
    name: 'DEBUG_TOKEN_FILE',
    kind: text(),
    summary:
      'File with the bearer token that the debug listener asks for, for everything but `/livez` and `/console`; white space around it is dropped, it has at least 16 characters, and is read again when it changes. Empty: nobody is asked. Not in the Go service.',
  },
  debugAllowedHosts: {
    name: 'DEBUG_ALLOWED_HOSTS',
    kind: list(hostName(), { max: 100 }),
    default: [] as readonly string[],
    summary:
      'Further names by which clients may ask the debug listener for [`/v1` and the debug pages](callers.md#browsers). IP addresses, `localhost`, the name of the machine, names without a dot, and names that end in `.svc`, `.cluster.local` or `.internal` are always allowed. A request for any other name gets 403, because a web page can point a name of its own at this listener (DNS rebinding). No limit is affected. Not in the Go service.',
  },
  httpAllowedHosts: {
    name: 'HTTP_ALLOWED_HOSTS',
    kind: list(hostName(), { max: 100 }),
    default: [] as readonly string[],
    summary:
      'Further names by which clients may ask the HTTP listener (`PORT`) for `/json` and `/v1`; the names that `DEBUG_ALLOWED_HOSTS` always allows are allowed here, too. A request for any other name gets 403 and counts nothing: a proxy that passes on the Host of its clients needs their names here. Empty: the listener answers to every name. Not in the Go service.',
  },
} as const satisfies SettingsTable;

type ServerTlsSettings = {
  readonly [Name in `${'grpc' | 'http'}${'ServerTlsCert' | 'ServerTlsKey' | 'ClientTlsCaCert' | 'ClientTlsSan'}`]?: string;
} & { readonly [Name in `${'grpc' | 'http'}ServerUseTls`]?: boolean };

/** Half a TLS setup would leave open what somebody meant to close. */
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
      `needs ${server}_USE_TLS=true: without TLS no caller shows a certificate`,
    ],
    [
      san !== '' && caCert === '',
      `${client}_TLS_SAN`,
      `needs ${client}_TLS_CACERT: without it no caller shows a certificate`,
    ],
  ]);
}
