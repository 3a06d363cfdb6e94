import { describe, expect, it } from 'vitest';
import { defaultOf } from '../../process/settings/settings-reader.ts';
import { parseControlPlaneSettings } from './settings.ts';
import { controlPlaneSettingGroups } from './table.ts';

const all = controlPlaneSettingGroups.flatMap(({ settings }) => Object.values(settings));
const token = 'a-token-of-the-api';
const directory = { SOURCE: 'DIRECTORY', MANIFESTS_DIRECTORY: '/m' };
const secret = `whsec_${Buffer.alloc(32, 7).toString('base64')}`;

/** Off loopback there is more to be set. */
const inside = { XDS_HOST: '127.0.0.1' };
const lookupInside = { API_HOST: '127.0.0.1' };

function messages(env: Record<string, string>): string[] | undefined {
  return parseControlPlaneSettings({ ...inside, ...env }).errors?.map(({ message }) => message);
}

describe('parseControlPlaneSettings', () => {
  it('reads lists and pairs', () => {
    expect(
      parseControlPlaneSettings({
        WATCH_NAMESPACES: 'shop, mail,shop',
        XDS_TLS_CERT: '/c.pem',
        XDS_TLS_KEY: '/k.pem',
        XDS_TLS_CLIENT_CACERT: '/ca.pem',
        XDS_TOKENS_FILE: '/tokens',
        XDS_CLIENT_FLEETS:
          'edge.example=edge, spiffe://c/ns/a=b/sa=shop, edge.example=default, system:serviceaccount:shop:limiter=shop, token:t=edge',
        WEBHOOK_URLS: 'https://a.example/x?y=1,http://b.example',
        WEBHOOK_SECRET: secret,
      }).settings,
    ).toMatchObject({
      watchNamespaces: ['shop', 'mail'],
      xdsClientFleets: new Map([
        ['edge.example', ['edge', 'default']],
        ['spiffe://c/ns/a=b/sa', ['shop']],
        ['system:serviceaccount:shop:limiter', ['shop']],
        ['token:t', ['edge']],
      ]),
      webhookUrls: ['https://a.example/x?y=1', 'http://b.example'],
    });
  });

  const namespace = 'up to 63 of a-z, 0-9 and -, without - at either end';
  const refused: [env: Record<string, string>, ...messages: string[]][] = [
    [{ SOURCE: 'DIRECTORY' }, 'MANIFESTS_DIRECTORY: is needed with SOURCE=DIRECTORY'],
    [
      { FLEET_SERVICES: 'default=a/b,default=c/d' },
      "FLEET_SERVICES: names two Services for fleet 'default': one is all it takes",
    ],
    [
      { ...directory, FLEET_SERVICES: 'default=a/b' },
      'FLEET_SERVICES: has no effect with SOURCE=DIRECTORY: remove it',
    ],
    [
      { MANIFESTS_DIRECTORY: '/m' },
      'MANIFESTS_DIRECTORY: has an effect only with SOURCE=DIRECTORY: set that as well, or remove it',
    ],
    [
      { SOURCE: 'directory', MANIFESTS_DIRECTORY: '/m', WATCH_NAMESPACES: 'a', LABEL_SELECTOR: 'a=b' },
      'WATCH_NAMESPACES: has no effect with SOURCE=DIRECTORY: remove it',
      'LABEL_SELECTOR: has no effect with SOURCE=DIRECTORY: remove it',
    ],
    [
      { SOURCE: 'FILE' },
      'SOURCE: "FILE" is not accepted, expected KUBERNETES or DIRECTORY, in any letter case',
    ],
    [
      { WATCH_NAMESPACES: 'shop,Mail' },
      `WATCH_NAMESPACES: "shop,Mail" is not accepted, expected up to 1000 items between commas, each ${namespace}; item 2 is not`,
    ],
    [
      { LABEL_SELECTOR: 'a=b=c' },
      "LABEL_SELECTOR: \"a=b=c\" is not accepted, expected a label selector such as team=payments,tier in (edge,core),!legacy; found '=' after 'b' instead of ',' or the end",
    ],
    [
      { DOMAIN_OWNERS: 'shop; *=Platform' },
      "DOMAIN_OWNERS: entry 1 'shop' needs '=' between a domain and its namespaces",
      "DOMAIN_OWNERS: entry 2 '*=Platform' has 'Platform' in place of a namespace",
    ],
    [{ XDS_TLS_CERT: '/c.pem' }, 'XDS_TLS_CERT: needs XDS_TLS_KEY as well'],
    [{ XDS_TLS_KEY: '/k.pem' }, 'XDS_TLS_KEY: needs XDS_TLS_CERT as well'],
    [{ XDS_TLS_CLIENT_CACERT: '/ca.pem' }, 'XDS_TLS_CERT: is needed with XDS_TLS_CLIENT_CACERT'],
    [
      { XDS_CLIENT_FLEETS: 'a=b' },
      'XDS_TLS_CLIENT_CACERT: is needed with a name of a certificate in XDS_CLIENT_FLEETS: without it the control plane asks for no certificates',
    ],
    [
      { XDS_CLIENT_FLEETS: 'a=b,c' },
      `XDS_CLIENT_FLEETS: "a=b,c" is not accepted, expected up to 10000 items between commas, each name=value, where the name is a DNS name, URI or common name of a certificate, system:serviceaccount:<namespace>:<name> or token:<name>, and the value is ${namespace}; item 2 is not`,
    ],
    [
      { POD_NAME: 'Weir_0' },
      'POD_NAME: "Weir_0" is not accepted, expected up to 200 of a-z, 0-9, - and ., with a letter or digit at both ends of each part, or empty',
    ],
    [
      { LEASE_NAME: '' },
      'LEASE_NAME: "" is not accepted, expected up to 200 of a-z, 0-9, - and ., with a letter or digit at both ends of each part',
    ],
    [{ POD_NAMESPACE: '-' }, `POD_NAMESPACE: "-" is not accepted, expected ${namespace}, or empty`],
    [
      { LEASE_DURATION: '10s' },
      'LEASE_RENEW_DEADLINE: 10s must be less than LEASE_DURATION, 10s: otherwise two replicas could lead',
    ],
    [
      { LEASE_RETRY_PERIOD: '10s' },
      'LEASE_RETRY_PERIOD: 10s must be less than LEASE_RENEW_DEADLINE, 10s: otherwise one failed attempt ends the leadership',
    ],
    [
      { STATUS_WRITES_PER_SECOND: '0' },
      'STATUS_WRITES_PER_SECOND: "0" is not accepted, expected a whole number from 1 to 10000',
    ],
    [{ ADMISSION_TLS_CERT: '/c.pem' }, 'ADMISSION_TLS_CERT: needs ADMISSION_TLS_KEY as well'],
    [{ ADMISSION_TLS_KEY: '/k.pem' }, 'ADMISSION_TLS_KEY: needs ADMISSION_TLS_CERT as well'],
    [
      { ...directory, ADMISSION_TLS_CERT: '/c.pem', ADMISSION_TLS_KEY: '/k.pem' },
      'ADMISSION_TLS_CERT: has no effect with SOURCE=DIRECTORY: remove it',
    ],
    [
      { WEBHOOK_URLS: 'https://a.example' },
      'WEBHOOK_SECRET_FILE: is needed with WEBHOOK_URLS, or WEBHOOK_SECRET is: events are never posted unsigned',
    ],
    [
      { WEBHOOK_SECRET: secret, WEBHOOK_SECRET_FILE: '/s' },
      'WEBHOOK_SECRET_FILE: is set together with WEBHOOK_SECRET: keep one of them',
    ],
    [
      { WEBHOOK_SECRET: 'whsec_dG9vIHNob3J0' },
      'WEBHOOK_SECRET: the signing secret must hold 24 to 64 bytes, it holds 9',
    ],
    [
      { WEBHOOK_SECRET: secret, WEBHOOK_URLS: 'https://a.example,ftp://user:hunter2@b.example' },
      'WEBHOOK_URLS: item 2 must begin with https:// or http://',
    ],
    [
      { WEBHOOK_SECRET: secret, WEBHOOK_URLS: 'https://u:hunter2@a.example,' },
      'WEBHOOK_URLS: the value (not shown) is not accepted, expected up to 32 items between commas, each text; item 2 is not',
    ],
    [
      { ...lookupInside, API_TLS_CERT: '/c.pem', API_TOKEN: token },
      'API_TLS_CERT: needs API_TLS_KEY as well',
    ],
    [
      { API_TLS_CERT: '/c.pem', API_TLS_KEY: '/k.pem' },
      'API_TOKEN_FILE: is needed with API_TLS_CERT, or API_TOKEN is: the listener for the secret lookup does not open without a token',
    ],
    [
      { ...lookupInside, API_TOKEN: 'hunter2' },
      'API_TOKEN: the token must have at least 16 characters, it has 7',
    ],
    ...[{ API_TOKEN: token }, { API_TOKEN_FILE: '/t' }].map((env): [Record<string, string>, string] => [
      { ...env, API_HOST: '0.0.0.0' },
      'API_TLS_CERT: is needed with API_HOST=0.0.0.0: others on the network could read token and secret; or set API_HOST=127.0.0.1, or API_ALLOW_PLAIN=true if you trust the network',
    ]),
    [
      { XDS_CLIENT_FLEETS: 'token:edge=edge' },
      'XDS_TOKENS_FILE: is needed with token:<name> in XDS_CLIENT_FLEETS: without it there are no such tokens',
    ],
    [
      { ...directory, XDS_CLIENT_FLEETS: 'system:serviceaccount:shop:limiter=edge' },
      'XDS_CLIENT_FLEETS: names a service account, but with SOURCE=DIRECTORY there is no API server that could verify its token',
    ],
    [
      { XDS_CLIENT_FLEETS: 'system:serviceaccount:shop=edge' },
      `XDS_CLIENT_FLEETS: "system:serviceaccount:shop=edge" is not accepted, expected up to 10000 items between commas, each name=value, where the name is a DNS name, URI or common name of a certificate, system:serviceaccount:<namespace>:<name> or token:<name>, and the value is ${namespace}; item 1 is not`,
    ],
    [{ XDS_TOKEN_AUDIENCE: '' }, 'XDS_TOKEN_AUDIENCE: must not be empty'],
    ...['0.0.0.0', '::', '10.0.0.1', 'weir.example'].map((host): [Record<string, string>, string] => [
      { XDS_HOST: host },
      `XDS_ALLOW_ANONYMOUS: with XDS_HOST=${host} anyone who reaches that port would get all rules and count as a limiter: set XDS_TLS_CLIENT_CACERT, XDS_TOKENS_FILE, or XDS_CLIENT_FLEETS with a service account, so that limiters prove who they are; or set XDS_HOST=127.0.0.1; or XDS_ALLOW_ANONYMOUS=true to allow every client`,
    ]),
    [{ API_TLS_KEY: '/k.pem' }, 'API_TLS_KEY: needs API_TLS_CERT as well'],
    [
      { ...lookupInside, API_TOKEN: token, API_TOKEN_FILE: '/t' },
      'API_TOKEN_FILE: is set together with API_TOKEN: keep one of them',
    ],
    [
      { XDS_TLS_CLIENT_CA: '/ca.pem' },
      'XDS_TLS_CLIENT_CA: this version does not have it, and ignoring it would be unsafe; remove it or set it to false',
    ],
    [{ PORT: '65536' }, 'PORT: "65536" is not accepted, expected a whole number from 0 to 65535'],
  ];
  it.each(refused)('rejects %j', (env, ...expected) => {
    expect(messages(env)).toEqual(expected);
  });

  it('reports everything at once and shows no secret', () => {
    const env = {
      WEBHOOK_SECRET: 'hunter2',
      WEBHOOK_URLS: 'hunter2://x',
      API_TOKEN: 'hunter2',
      API_TOKEN_FILE: '/t',
      PORT: 'x',
      LEASE_RETRY_PERIOD: 'x',
    };
    const errors = parseControlPlaneSettings(env).errors ?? [];
    expect(errors.map(({ variable }) => variable)).toEqual([
      'LEASE_RETRY_PERIOD',
      'PORT',
      'API_TLS_CERT',
      'XDS_ALLOW_ANONYMOUS',
      'WEBHOOK_URLS',
      'WEBHOOK_SECRET',
      'API_TOKEN',
      'API_TOKEN_FILE',
    ]);
    expect(JSON.stringify(errors)).not.toContain('hunter2');
  });

  const tls = { XDS_TLS_CERT: '/c.pem', XDS_TLS_KEY: '/k.pem' };
  const lookup = { API_TOKEN: token, WEBHOOK_URLS: 'https://a.example', WEBHOOK_SECRET_FILE: '/s' };
  it.each<[Record<string, string>]>([
    [{ XDS_HOST: '127.0.0.1' }],
    [{ XDS_HOST: '127.8.0.1' }],
    [{ XDS_HOST: '[::1]' }],
    [{ XDS_HOST: 'localhost' }],
    [{ ...tls, XDS_TLS_CLIENT_CACERT: '/ca.pem' }],
    [{ ...tls, XDS_TOKENS_FILE: '/tokens' }],
    [{ ...tls, XDS_CLIENT_FLEETS: 'system:serviceaccount:shop:limiter=shop' }],
    [{ XDS_HOST: '127.0.0.1', XDS_TOKENS_FILE: '/tokens' }],
    [{ XDS_HOST: '::1', API_HOST: '::1', ...lookup }],
    [{ XDS_HOST: '::1', API_TLS_CERT: '/c.pem', API_TLS_KEY: '/k.pem', ...lookup }],
    [{ XDS_HOST: '::1', API_ALLOW_PLAIN: 'true', ...lookup }],
  ])('takes %j without a word', (env) => {
    const { errors, warnings } = parseControlPlaneSettings(env);
    expect([errors, warnings]).toEqual([undefined, []]);
  });

  const plainTokens =
    'Limiters send tokens without TLS, so others on the network can read them: set XDS_TLS_CERT and XDS_TLS_KEY';
  it.each<[Record<string, string>, string[]]>([
    [
      { XDS_ALLOW_ANONYMOUS: 'true' },
      [
        'XDS_ALLOW_ANONYMOUS=true: anyone who reaches the xDS port gets the rules of every fleet and counts as a limiter',
      ],
    ],
    [
      { ...inside, API_HOST: '::1', API_TOKEN: token },
      ['API_TOKEN opens a listener that has no signing secret to serve: set WEBHOOK_URLS, or remove it'],
    ],
    [{ XDS_TOKENS_FILE: '/tokens' }, [plainTokens]],
    [{ XDS_CLIENT_FLEETS: 'system:serviceaccount:shop:limiter=shop' }, [plainTokens]],
    [
      { ...inside, XDS_TOKEN_AUDIENCE: 'other' },
      ['XDS_TOKEN_AUDIENCE has no effect without XDS_CLIENT_FLEETS'],
    ],
    [
      { ...inside, API_ALLOW_PLAIN: 'true', API_TLS_CERT: '/c.pem', API_TLS_KEY: '/k.pem', ...lookup },
      ['API_ALLOW_PLAIN has no effect with API_TLS_CERT'],
    ],
  ])('warns of %j', (env, expected) => {
    expect(parseControlPlaneSettings(env).warnings).toEqual(expected);
  });

  it('warns of what it does not know, and not of what is for others', () => {
    expect(
      parseControlPlaneSettings({
        ...inside,
        WEBHOOK_RETRIES: '3',
        WATCH_NAMESPACE: 'shop',
        XDS_SERVICE_HOST: '10.0.0.1',
        API_KEY: 'x',
        HOME: '/root',
        HOSTNAME: 'weir-0',
      }).warnings,
    ).toEqual([
      'WATCH_NAMESPACE is unknown to this version and ignored; did you mean WATCH_NAMESPACES?',
      'WEBHOOK_RETRIES is a setting that this version does not have; it is ignored',
    ]);
  });
});

describe('the table of settings', () => {
  it('has every variable once', () => {
    const names = all.map(({ name }) => name);
    expect(new Set(names).size).toBe(names.length);
  });

  it('has defaults that its own kinds accept', () => {
    for (const setting of all) {
      const { name, kind } = setting;
      const value = defaultOf(setting);
      expect([name, kind.schema.parse(kind.format(value))]).toEqual([name, value]);
    }
  });

  it('has one sentence for each', () => {
    for (const { name, summary } of all) expect([name, /^[^\n]+\.$/.test(summary)]).toEqual([name, true]);
  });

  it('keeps what may hold credentials secret', () => {
    expect(all.filter((setting) => setting.secret === true).map(({ name }) => name)).toEqual([
      'WEBHOOK_URLS',
      'WEBHOOK_SECRET',
      'API_TOKEN',
    ]);
  });
});
