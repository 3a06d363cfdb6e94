import type { Values } from '../support/helm-chart.ts';

const redis = { url: 'redis:6379' };
const profile = { domain: 'shop', rate_limits: [{ actions: [{ remote_address: {} }] }] };

/** Values that the chart rejects, with the message. */
export const rejectedValues: readonly [message: string, values: Values][] = [
  [
    'redis.url or redis.existingSecret is needed; to try the chart without Redis, set store.type=memory, limiter.autoscaling.enabled=false and limiter.replicas=1',
    {},
  ],
  [
    'redis.url and redis.existingSecret exclude each other: remove one of them',
    { redis: { url: 'a:1', existingSecret: 'b' } },
  ],
  [
    'redis.perSecond.url or redis.perSecond.existingSecret is needed',
    { redis: { ...redis, perSecond: { enabled: true } } },
  ],
  [
    'redis.tls.clientCertificate needs redis.tls.existingSecret',
    { redis: { ...redis, tls: { enabled: true, clientCertificate: true } } },
  ],
  [
    'redis.tls.existingSecret needs redis.tls.enabled=true, or redis.perSecond.tls=true',
    { redis: { ...redis, tls: { existingSecret: 'tls' } } },
  ],
  [
    'certManager.enabled sets up TLS between limiters and control plane: remove controlPlane.xds.tls',
    { redis, certManager: { enabled: true }, controlPlane: { xds: { tls: { existingSecret: 'tls' } } } },
  ],
  [
    'certManager.enabled sets up TLS between limiters and control plane: remove controlPlane.xds.tls',
    { redis, certManager: { enabled: true }, limiter: { xdsTls: { enabled: true } } },
  ],
  [
    'certManager.enabled has no effect when limiters read their rules from files: set certManager.enabled=false',
    {
      redis,
      certManager: { enabled: true },
      controlPlane: { enabled: false },
      limiter: { existingRulesConfigMap: 'rules' },
    },
  ],
  [
    'certManager.enabled without a control plane needs certManager.issuerRef.name',
    {
      redis,
      certManager: { enabled: true },
      controlPlane: { enabled: false },
      limiter: { xdsAddress: 'weir:18000' },
    },
  ],
  [
    'controlPlane.secretLookup.allowPlain has no effect with certManager.enabled',
    {
      redis,
      certManager: { enabled: true },
      controlPlane: {
        webhooks: { signingSecret: 'a' },
        secretLookup: { tokenSecret: 'b', allowPlain: true },
      },
    },
  ],
  [
    'limiter.xdsToken.existingSecret has no effect with certManager.enabled',
    { redis, certManager: { enabled: true }, limiter: { xdsToken: { existingSecret: 'token' } } },
  ],
  [
    'which needs controlPlane.xds.serviceAccounts=true and no controlPlane.xds.tls.clientCa',
    {
      redis,
      certManager: { enabled: true },
      controlPlane: { xds: { clientFleets: 'system:serviceaccount:shop:limiter=shop' } },
    },
  ],
  [
    "at '/certManager/duration': '90 days' does not match pattern",
    { redis, certManager: { duration: '90 days' } },
  ],
  [
    'admission.enabled needs a certificate: set admission.tlsSecret and admission.caBundle, or certManager.enabled=true',
    { redis, admission: { enabled: true } },
  ],
  [
    'admission.enabled needs controlPlane.enabled=true',
    {
      redis,
      admission: { enabled: true, tlsSecret: 'a', caBundle: '-----BEGIN CERTIFICATE-----' },
      controlPlane: { enabled: false },
      limiter: { xdsAddress: 'weir:18000' },
    },
  ],
  [
    'admission.tlsSecret needs admission.caBundle, or an annotation in admission.annotations',
    { redis, admission: { enabled: true, tlsSecret: 'a' } },
  ],
  [
    'admission.caBundle needs admission.tlsSecret',
    {
      redis,
      certManager: { enabled: true },
      admission: { enabled: true, caBundle: '-----BEGIN CERTIFICATE-----' },
    },
  ],
  [
    'admission.caBundle is not a certificate in PEM',
    { redis, admission: { enabled: true, tlsSecret: 'a', caBundle: 'TUlJ' } },
  ],
  [
    'controlPlane.ports.admission and controlPlane.ports.xds are both 18000',
    {
      redis,
      admission: { enabled: true, tlsSecret: 'a', annotations: { 'cert-manager.io/inject-ca-from': 'a/b' } },
      controlPlane: { ports: { admission: 18000 } },
    },
  ],
  [
    'limiter.service.trafficDistribution has no effect with limiter.service.headless',
    { redis, limiter: { service: { headless: true, trafficDistribution: 'PreferClose' } } },
  ],
  [
    'networkPolicy.egress.enabled needs networkPolicy.enabled=true',
    { redis, networkPolicy: { egress: { enabled: true } } },
  ],
  [
    'networkPolicy.egress.enabled needs networkPolicy.egress.store: without it, limiters cannot reach the store',
    { redis, networkPolicy: { enabled: true, egress: { enabled: true } } },
  ],
  [
    'networkPolicy.egress.enabled needs networkPolicy.egress.apiServer',
    { redis, networkPolicy: { enabled: true, egress: { enabled: true, store: [{}], apiServer: [] } } },
  ],
  [
    'networkPolicy.egress.enabled with controlPlane.webhooks.urlsSecret needs networkPolicy.egress.controlPlane',
    {
      redis,
      networkPolicy: { enabled: true, egress: { enabled: true, store: [{}] } },
      controlPlane: { webhooks: { urlsSecret: 'a', signingSecret: 'a' } },
    },
  ],
  [
    'helmTest.domain and helmTest.descriptor need each other: set both or neither',
    { redis, helmTest: { domain: 'shop' } },
  ],
  [
    'helmTest.tlsSecret needs limiter.grpcTls.clientCa=true',
    { redis, helmTest: { tlsSecret: 'caller-tls' } },
  ],
  ['memcache.hostPort or memcache.srv is needed with store.type=memcache', { store: { type: 'memcache' } }],
  [
    'memcache.hostPort and memcache.srv exclude each other: remove one of them',
    { store: { type: 'memcache' }, memcache: { hostPort: 'a:1', srv: 'b' } },
  ],
  ['redis is set, but store.type is memory: remove one of them', { store: { type: 'memory' }, redis }],
  [
    'store.type=memory needs limiter.workers=1: otherwise each thread counts on its own',
    { store: { type: 'memory' }, limiter: { workers: 'auto' } },
  ],
  [
    'limiters have no rules: with controlPlane.enabled=false, set limiter.rules, limiter.existingRulesConfigMap or limiter.xdsAddress',
    { redis, controlPlane: { enabled: false } },
  ],
  [
    'with limiter.rules or limiter.existingRulesConfigMap, set controlPlane.enabled=false',
    { redis, limiter: { existingRulesConfigMap: 'rules' } },
  ],
  [
    'limiter.rules and limiter.existingRulesConfigMap exclude each other: remove one of them',
    {
      redis,
      controlPlane: { enabled: false },
      limiter: { rules: { 'a.yaml': '' }, existingRulesConfigMap: 'b' },
    },
  ],
  [
    'remove limiter.xdsAddress and limiter.xdsTls, or the rules',
    { redis, controlPlane: { enabled: false }, limiter: { rules: { 'a.yaml': '' }, xdsAddress: 'b:1' } },
  ],
  [
    'limiter.xdsTls.enabled and controlPlane.xds.tls.existingSecret need each other',
    { redis, limiter: { xdsTls: { enabled: true } } },
  ],
  [
    'limiter.xdsTls.enabled and controlPlane.xds.tls.existingSecret need each other',
    { redis, controlPlane: { xds: { tls: { existingSecret: 'tls' } } } },
  ],
  [
    'controlPlane.xds.tls.clientCa needs limiter.xdsTls.clientCertificate=true',
    {
      redis,
      limiter: { xdsTls: { enabled: true } },
      controlPlane: { xds: { tls: { existingSecret: 'tls', clientCa: true } } },
    },
  ],
  [
    'limiter.xdsTls.clientCertificate needs limiter.xdsTls.existingSecret',
    {
      redis,
      limiter: { xdsTls: { enabled: true, clientCertificate: true } },
      controlPlane: { xds: { tls: { existingSecret: 'tls' } } },
    },
  ],
  [
    'limiter.xdsTls.existingSecret needs limiter.xdsTls.enabled=true',
    { redis, limiter: { xdsTls: { existingSecret: 'tls' } } },
  ],
  [
    'limiter.grpcTls.clientCa needs limiter.grpcTls.existingSecret',
    { redis, limiter: { grpcTls: { clientCa: true } } },
  ],
  [
    'limiter.grpcTls.clientName needs limiter.grpcTls.clientCa=true: without it, limiters do not request a certificate',
    { redis, limiter: { grpcTls: { existingSecret: 'tls', clientName: 'a' } } },
  ],
  [
    'limiter.httpTls.clientCa needs limiter.httpTls.existingSecret',
    { redis, limiter: { httpTls: { clientCa: true } } },
  ],
  [
    'limiter.httpTls.clientName needs limiter.httpTls.clientCa=true: without it, limiters do not request a certificate',
    { redis, limiter: { httpTls: { existingSecret: 'tls', clientName: 'a' } } },
  ],
  [
    'limiter.callers.entries, limiter.callers.existingConfigMap and limiter.callers.existingSecret exclude each other: keep one of them',
    { redis, limiter: { callers: { existingConfigMap: 'a', existingSecret: 'b' } } },
  ],
  [
    "at '/limiter/callers/entries/0': missing property 'domains'",
    { redis, limiter: { callers: { entries: [{ anonymous: true }] } } },
  ],
  [
    "at '/limiter/callers/entries/0': additional properties 'right' not allowed",
    { redis, limiter: { callers: { entries: [{ name: 'a', domains: ['a'], right: [] }] } } },
  ],
  // A hash of digits and one `e` is a number where it is not between quotes.
  [
    "at '/limiter/callers/entries/0/token_sha256': got number, want string or array",
    { redis, limiter: { callers: { entries: [{ name: 'a', token_sha256: 1e63, domains: ['a'] }] } } },
  ],
  [
    'limiter.profiles and limiter.existingProfilesConfigMap exclude each other: remove one of them',
    { redis, limiter: { profiles: { shop: profile }, existingProfilesConfigMap: 'a' } },
  ],
  [
    'limiter.extraEnv has PROFILES_FILE, which limiter.profiles and limiter.existingProfilesConfigMap set: remove one of them',
    {
      redis,
      limiter: { profiles: { shop: profile }, extraEnv: [{ name: 'PROFILES_FILE', value: '/a.yaml' }] },
    },
  ],
  [
    "at '/limiter/profiles/shop': missing property 'domain'",
    { redis, limiter: { profiles: { shop: { rate_limits: profile.rate_limits } } } },
  ],
  [
    "at '/limiter/profiles/shop': additional properties 'refused_status' not allowed",
    { redis, limiter: { profiles: { shop: { ...profile, refused_status: 403 } } } },
  ],
  ["'a/b' does not match pattern", { redis, limiter: { profiles: { 'a/b': profile } } }],
  [
    'controlPlane.xds.tls.clientCa needs controlPlane.xds.tls.existingSecret',
    { limiter: { enabled: false }, controlPlane: { xds: { tls: { clientCa: true } } } },
  ],
  [
    'controlPlane.xds.clientFleets has "a=b", which needs controlPlane.xds.tls.clientCa=true: without it, the control plane does not request certificates',
    { redis, controlPlane: { xds: { clientFleets: 'system:serviceaccount:c:d=e, a=b' } } },
  ],
  [
    'controlPlane.xds.clientFleets has "system:serviceaccount:c:d=e", which needs controlPlane.xds.serviceAccounts=true and no controlPlane.xds.tls.clientCa',
    {
      redis,
      controlPlane: {
        xds: { serviceAccounts: false, tokensSecret: 'x', clientFleets: 'system:serviceaccount:c:d=e' },
      },
    },
  ],
  [
    'controlPlane.xds.clientFleets has "token:a=b", which needs controlPlane.xds.tokensSecret',
    { redis, controlPlane: { xds: { clientFleets: 'token:a=b' } } },
  ],
  [
    'controlPlane.xds.tokensSecret needs its names in controlPlane.xds.clientFleets, such as token:edge=edge: all other limiters are bound to fleets, too',
    { redis, controlPlane: { xds: { tokensSecret: 'x' } } },
  ],
  ...[{ redis, controlPlane: { xds: { serviceAccounts: false } } }, { limiter: { enabled: false } }].map(
    (values): [string, Values] => [
      'limiters have no way to authenticate: set controlPlane.xds.tls.clientCa, controlPlane.xds.tokensSecret, controlPlane.xds.serviceAccounts with a service account in controlPlane.xds.clientFleets, or controlPlane.xds.allowAnonymous=true',
      values,
    ],
  ),
  [
    'limiter.xdsToken.audience and controlPlane.xds.tokenAudience must be the same: otherwise limiters cannot authenticate',
    { redis, controlPlane: { xds: { tokenAudience: 'other' } } },
  ],
  [
    'controlPlane.secretLookup needs controlPlane.secretLookup.tlsSecret, or controlPlane.secretLookup.allowPlain=true if others on the network may read the token and the secret',
    { redis, controlPlane: { webhooks: { signingSecret: 'a' }, secretLookup: { tokenSecret: 'a' } } },
  ],
  [
    'controlPlane.secretLookup.allowPlain has no effect with controlPlane.secretLookup.tlsSecret: remove one of them',
    {
      redis,
      controlPlane: {
        webhooks: { signingSecret: 'a' },
        secretLookup: { tokenSecret: 'a', tlsSecret: 'b', allowPlain: true },
      },
    },
  ],
  [
    'controlPlane.webhooks.urlsSecret needs controlPlane.webhooks.signingSecret: the control plane posts only signed events',
    { redis, controlPlane: { webhooks: { urlsSecret: 'a' } } },
  ],
  [
    'controlPlane.secretLookup needs controlPlane.webhooks.signingSecret: it serves that secret',
    { redis, controlPlane: { secretLookup: { tokenSecret: 'a' } } },
  ],
  [
    'controlPlane.secretLookup.tlsSecret needs controlPlane.secretLookup.tokenSecret: its listener opens only with a token',
    { redis, controlPlane: { secretLookup: { tlsSecret: 'a' } } },
  ],
  [
    'limiter.terminationGracePeriodSeconds must be at least 35 more than limiter.drainDelaySeconds: otherwise Kubernetes kills pods while calls are still running',
    { redis, limiter: { drainDelaySeconds: 26 } },
  ],
  [
    'controlPlane.terminationGracePeriodSeconds must be at least 35 more than controlPlane.drainDelaySeconds',
    { redis, controlPlane: { drainDelaySeconds: 26 } },
  ],
  [
    'limiter.autoscaling.minReplicas is greater than limiter.autoscaling.maxReplicas',
    { redis, limiter: { autoscaling: { minReplicas: 3, maxReplicas: 2 } } },
  ],
  [
    'limiter.replicas has no effect with autoscaling: set limiter.autoscaling.minReplicas and maxReplicas, or limiter.autoscaling.enabled=false',
    { redis, limiter: { replicas: 5 } },
  ],
  [
    'store.type=memory with up to 10 limiters: each limiter would count on its own; set limiter.autoscaling.enabled=false and limiter.replicas=1, or store.memoryPerPod=true to accept this',
    { store: { type: 'memory' } },
  ],
  [
    'store.type=memory with up to 3 limiters',
    { store: { type: 'memory' }, limiter: { autoscaling: { enabled: false }, replicas: 3 } },
  ],
  ['store.memoryPerPod needs store.type=memory', { redis, store: { memoryPerPod: true } }],
  ['redis.url must be host:port or redis://host:port/db', { redis: { url: 'redis' } }],
  ['redis.url must be host:port or redis://host:port/db', { redis: { url: 'a:1,b:2' } }],
  [
    'redis.url starts with rediss://: use redis:// and set redis.tls.enabled=true',
    { redis: { url: 'rediss://a:1' } },
  ],
  [
    'redis.perSecond.url starts with rediss://: use redis:// and set redis.perSecond.tls=true',
    { redis: { ...redis, perSecond: { enabled: true, url: 'rediss://a:1' } } },
  ],
  [
    'redis.url must be master,host:port,... with redis.type=SENTINEL',
    { redis: { type: 'SENTINEL', url: 'a:1,b:2' } },
  ],
  ['redis.url must be host:port,... with redis.type=CLUSTER', { redis: { type: 'CLUSTER', url: 'a:1,b' } }],
  [
    'serviceMonitor.enabled needs limiter.metrics.enabled=true: without it, limiters have no metrics to scrape',
    { redis, serviceMonitor: { enabled: true }, limiter: { metrics: { enabled: false } } },
  ],
  [
    'prometheusRule.enabled needs limiter.metrics.enabled=true: its alerts use the metrics of limiters',
    { redis, prometheusRule: { enabled: true }, limiter: { metrics: { enabled: false } } },
  ],
  [
    'serviceMonitor.enabled with networkPolicy.enabled needs networkPolicy.metricsFrom: without it, Prometheus cannot reach the metrics port',
    { redis, serviceMonitor: { enabled: true }, networkPolicy: { enabled: true } },
  ],
  [
    'limiter.autoscaling has no metric to scale by: set limiter.autoscaling.targetCPUUtilizationPercentage or limiter.autoscaling.metrics',
    { redis, limiter: { autoscaling: { targetCPUUtilizationPercentage: 0 } } },
  ],
  [
    'limiter.autoscaling.targetCPUUtilizationPercentage needs limiter.resources.requests.cpu: the target is a percentage of that request',
    { redis, limiter: { resources: { requests: { cpu: null } } } },
  ],
  [
    'limiter.extraEnv has USE_STATSD, but limiters send statistics to one place only: remove it, or set limiter.metrics.enabled=false',
    { redis, limiter: { extraEnv: [{ name: 'USE_STATSD', value: 'true' }] } },
  ],
  [
    'the entry "a = c" of controlPlane.domainOwners never applies, because the earlier entry for "a" matches the same domains: remove one of them, or change their order',
    { redis, controlPlane: { domainOwners: 'a=b;\r\na = c' } },
  ],
  [
    'limiter.rules has "shop": the name of a rule file may contain only letters, digits, "-", "_" and ".", and must end in .yaml or .yml',
    { redis, controlPlane: { enabled: false }, limiter: { rules: { shop: 'domain: shop' } } },
  ],
  [
    'the file "a.yaml" in limiter.rules is not a rule file: error converting YAML to JSON',
    { redis, controlPlane: { enabled: false }, limiter: { rules: { 'a.yaml': 'domain: [' } } },
  ],
  [
    'the file "a.yaml" in limiter.rules has no domain: add the field domain',
    { redis, controlPlane: { enabled: false }, limiter: { rules: { 'a.yaml': 'descriptors: []' } } },
  ],
  [
    'the file "b.yaml" in limiter.rules has no domain: add the field domain',
    {
      redis,
      controlPlane: { enabled: false },
      limiter: { rules: { 'a.yaml': 'domain: a', 'b.yaml': { descriptors: [] } } },
    },
  ],
  [
    'limiter.service.headless needs limiter.service.type=ClusterIP: a LoadBalancer Service has an address of its own',
    { redis, limiter: { service: { type: 'LoadBalancer', headless: true } } },
  ],
  [
    'limiter.service.headless needs limiter.service.type=ClusterIP: a NodePort Service has an address of its own',
    { redis, limiter: { service: { type: 'NodePort', headless: true } } },
  ],
  [
    'limiter.service.loadBalancerClass and limiter.service.loadBalancerSourceRanges need limiter.service.type=LoadBalancer',
    { redis, limiter: { service: { type: 'NodePort', loadBalancerSourceRanges: ['203.0.113.0/24'] } } },
  ],
  [
    'limiter.service.externalTrafficPolicy needs limiter.service.type=LoadBalancer or NodePort',
    { redis, limiter: { service: { externalTrafficPolicy: 'Local' } } },
  ],
  [
    'limiter.service has IPv6 addresses, which need listenAddress="::": at 0.0.0.0, pods accept no connections over IPv6',
    { redis, limiter: { service: { ipFamilyPolicy: 'PreferDualStack' } } },
  ],
  [
    'controlPlane.service.ipFamilies has two families: set controlPlane.service.ipFamilyPolicy=PreferDualStack',
    { redis, listenAddress: '::', controlPlane: { service: { ipFamilies: ['IPv4', 'IPv6'] } } },
  ],
  [
    'controlPlane.dnsPolicy=None needs controlPlane.dnsConfig.nameservers: otherwise pods cannot resolve names',
    { redis, controlPlane: { dnsPolicy: 'None', dnsConfig: { searches: ['a.example'] } } },
  ],
  [
    'limiter.ports.grpc and limiter.ports.http are both 9000: each listener needs a port of its own',
    { redis, limiter: { ports: { grpc: 9000, http: 9000 } } },
  ],
  [
    'limiter.ports.debug and limiter.ports.metrics are both 9090',
    { redis, limiter: { ports: { debug: 9090 } } },
  ],
  [
    'limiter.service.grpcPort and limiter.service.httpPort are both 80',
    { redis, limiter: { service: { grpcPort: 80, httpPort: 80 } } },
  ],
  [
    'controlPlane.ports.metrics and controlPlane.ports.xds are both 18000',
    { redis, controlPlane: { ports: { metrics: 18_000 } } },
  ],
  [
    'redis.tls.skipHostnameVerification needs redis.tls.enabled=true, or redis.perSecond.tls=true',
    { redis: { ...redis, tls: { skipHostnameVerification: true } } },
  ],
  [
    'limiter.extraEnv sets the socket type unix, which needs the path of a socket in redis.url, and redis.type=SINGLE',
    { redis, limiter: { extraEnv: [{ name: 'REDIS_SOCKET_TYPE', value: 'unix' }] } },
  ],
  [
    'redis.perSecond is set, but redis.perSecond.enabled is false: enable it, or remove redis.perSecond',
    { redis: { ...redis, perSecond: { url: 'b:1' } } },
  ],
  ['redis.sentinelAuthSecret needs redis.type=SENTINEL', { redis: { ...redis, sentinelAuthSecret: 'auth' } }],
  [
    'redis is set, but store.type is memcache: remove one of them',
    {
      redis: { perSecond: { enabled: true, url: 'b:1' } },
      store: { type: 'memcache' },
      memcache: { hostPort: 'a:1' },
    },
  ],
  [
    'memcache.hostPort or memcache.srv is set, but store.type is redis: remove one of them',
    { redis, memcache: { srv: 'b' } },
  ],
  [
    'store.leases needs store.type=redis: limiters take leases only from Redis',
    { store: { type: 'memcache', leases: true }, memcache: { hostPort: 'a:1' } },
  ],
  [
    'store.failureMode has no effect with store.type=memory, which does not fail: remove it',
    { store: { type: 'memory', memoryPerPod: true, failureMode: 'deny' } },
  ],
  ["at '/fullnameOverride': 'Weir' does not match pattern", { redis, fullnameOverride: 'Weir' }],
  ["at '/nameOverride': 'a.b' does not match pattern", { redis, nameOverride: 'a.b' }],
  ["at '/redis/existingSecretKey': minLength: got 0, want 1", { redis: { ...redis, existingSecretKey: '' } }],
  ["at '/global/imageRegistry': got number, want null or string", { redis, global: { imageRegistry: 3 } }],
  ["at '/imagePullSecrets/0': minLength: got 0, want 1", { redis, imagePullSecrets: [''] }],
  ["at '': additional properties 'replicas' not allowed", { redis, replicas: 3 }],
  ["at '/limiter': additional properties 'replica' not allowed", { redis, limiter: { replica: 3 } }],
  ["at '/redis/tls': additional properties 'secret' not allowed", { redis: { tls: { secret: 'a' } } }],
  ["at '/limiter/replicas': got string, want integer", { redis, limiter: { replicas: '3' } }],
  ["at '/store/type': value must be one of 'redis', 'memcache', 'memory'", { store: { type: 'Redis' } }],
  [
    "at '/limiter/ports/grpc': maximum: got 70,000, want 65,535",
    { redis, limiter: { ports: { grpc: 70_000 } } },
  ],
  ["at '/limiter/extraEnv/0': missing property 'name'", { redis, limiter: { extraEnv: [{ value: 'a' }] } }],
];
