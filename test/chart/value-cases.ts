import type { Values } from '../support/helm-chart.ts';

export interface ValueCase {
  name: string;
  values: Values;
}

const redis = { url: 'redis:6379' };

/** What the Pod Security Standard "restricted" requires of a container. */
const restricted = { allowPrivilegeEscalation: false, capabilities: { drop: ['ALL'] } };

/** Values that are accepted, together with everything that a switch or a choice of the chart adds. */
export const valueCases: readonly ValueCase[] = [
  { name: 'a Redis by its URL', values: { redis } },
  {
    name: 'a Redis by a Secret',
    values: { redis: { existingSecret: 'redis', existingSecretKey: 'address' } },
  },
  {
    name: 'sentinels, TLS and a Redis for limits per second',
    values: {
      redis: {
        type: 'SENTINEL',
        url: 'main,sentinel-0:26379,sentinel-1:26379',
        authSecret: 'redis-auth',
        sentinelAuthSecret: 'redis-auth',
        sentinelAuthSecretKey: 'sentinel',
        tls: {
          enabled: true,
          existingSecret: 'redis-tls',
          clientCertificate: true,
          skipHostnameVerification: true,
        },
        perSecond: {
          enabled: true,
          type: 'CLUSTER',
          existingSecret: 'redis',
          existingSecretKey: 'second',
          authSecret: 'redis-auth',
          tls: true,
        },
      },
      store: { failureMode: 'local', keyPrefix: 'prod:', leases: true },
    },
  },
  {
    name: 'memcache',
    values: { store: { type: 'memcache' }, memcache: { hostPort: 'm-0:11211,m-1:11211' } },
  },
  {
    name: 'memcache by SRV records',
    values: { store: { type: 'memcache' }, memcache: { srv: '_memcache._tcp.cache.svc' } },
  },
  {
    name: 'one limiter that counts in its memory',
    values: { store: { type: 'memory' }, limiter: { autoscaling: { enabled: false }, replicas: 1 } },
  },
  {
    name: 'several limiters that count in their memory, which is wanted',
    values: { store: { type: 'memory', memoryPerPod: true } },
  },
  {
    name: 'a cluster whose nodes are URLs',
    values: {
      redis: { type: 'CLUSTER', url: 'redis://a:6379, redis://b:6379,[::1]:6379' },
      limiter: { log: { level: 'warning' } },
      controlPlane: { log: { level: 'warning' } },
    },
  },
  {
    name: 'a Redis by its socket',
    values: {
      redis: { url: '/run/redis/redis.sock' },
      limiter: { extraEnv: [{ name: 'REDIS_SOCKET_TYPE', value: 'unix' }] },
    },
  },
  {
    name: 'TLS everywhere',
    values: {
      redis,
      limiter: {
        grpcTls: { existingSecret: 'grpc-tls', clientCa: true, clientName: 'proxy.example' },
        xdsTls: {
          enabled: true,
          existingSecret: 'xds-client',
          clientCertificate: true,
          serverName: 'weir.example',
        },
      },
      controlPlane: {
        xds: {
          tls: { existingSecret: 'xds-server', clientCa: true },
          clientFleets: 'limiter.example=default',
        },
      },
    },
  },
  {
    name: 'certificates by cert-manager, of an authority of the release',
    values: {
      redis,
      certManager: { enabled: true, duration: '24h', renewBefore: '8h30m' },
      limiter: { fleet: 'edge', xdsTls: { serverName: 'weir-control-plane' } },
      controlPlane: {
        webhooks: { urlsSecret: 'webhooks', signingSecret: 'webhooks' },
        secretLookup: { tokenSecret: 'lookup' },
        xds: { clientFleets: 'weir-limiter.shop.svc=shop' },
      },
    },
  },
  {
    name: 'certificates of an issuer of the cluster, for limiters of a control plane elsewhere',
    values: {
      redis,
      certManager: { enabled: true, issuerRef: { name: 'company', kind: 'ClusterIssuer' } },
      controlPlane: { enabled: false },
      limiter: { xdsAddress: 'weir-control-plane.other.svc:18000' },
    },
  },
  {
    name: 'roles for people, near pods first, and objects of somebody else',
    values: {
      redis,
      aggregatedRoles: { enabled: true },
      limiter: { service: { trafficDistribution: 'PreferClose' } },
      controlPlane: { service: { trafficDistribution: 'PreferClose' } },
      extraObjects: [
        {
          apiVersion: 'v1',
          kind: 'ConfigMap',
          metadata: { name: 'more' },
          data: { at: '{{ .Release.Name }}' },
        },
        'apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {{ include "weir.fullname" . }}-text\n',
      ],
    },
  },
  {
    name: 'policies for both ways, and a test with a token and a certificate',
    values: {
      redis,
      networkPolicy: {
        enabled: true,
        limiterFrom: [{ podSelector: { matchLabels: { app: 'envoy' } } }],
        egress: {
          enabled: true,
          store: [{ to: [{ podSelector: { matchLabels: { app: 'redis' } } }], ports: [{ port: 6379 }] }],
          limiter: [{ ports: [{ port: 4317 }] }],
          controlPlane: [{ to: [{ ipBlock: { cidr: '203.0.113.0/24' } }] }],
        },
      },
      helmTest: {
        domain: 'shop',
        descriptor: 'path=/a,user=b',
        tokenSecret: 'caller',
        tlsSecret: 'caller-tls',
        timeoutSeconds: 30,
      },
      limiter: { grpcTls: { existingSecret: 'grpc-tls', clientCa: true } },
      controlPlane: { webhooks: { urlsSecret: 'webhooks', signingSecret: 'webhooks' } },
    },
  },
  {
    name: 'callers that are known, TLS for HTTP and a token for the debug port',
    values: {
      redis,
      limiter: {
        httpTls: { existingSecret: 'http-tls', clientCa: true, clientName: 'caller.example' },
        callers: {
          entries: [
            {
              name: 'edge',
              certificate: { uri: 'spiffe://prod.example/ns/edge/sa/*' },
              domains: ['*'],
              rights: ['ask', 'override'],
              requests_per_second: 1_000_000,
            },
            { name: 'mail', token_sha256: ['e'.repeat(64)], domains: ['1e6'] },
            { anonymous: true, domains: ['public'] },
          ],
        },
        debugToken: { existingSecret: 'debug' },
      },
    },
  },
  {
    name: 'callers of a ConfigMap of somebody else',
    values: {
      redis,
      limiter: { callers: { existingConfigMap: 'callers', existingConfigMapKey: 'who.yaml' } },
    },
  },
  {
    name: 'callers of a Secret, and HTTP over TLS without metrics',
    values: {
      redis,
      limiter: {
        metrics: { enabled: false },
        httpTls: { existingSecret: 'http-tls' },
        callers: { existingSecret: 'callers' },
      },
    },
  },
  {
    name: 'profiles for other proxies than Envoy',
    values: {
      redis,
      limiter: {
        profiles: {
          shop: {
            domain: 'shop',
            refusedStatus: 403,
            onError: 'deny',
            trustedHops: 1,
            originalRequest: 'original-url',
            rate_limits: [{ actions: [{ remote_address: {} }] }],
          },
        },
      },
    },
  },
  {
    name: 'profiles of a ConfigMap of somebody else',
    values: {
      redis,
      limiter: { existingProfilesConfigMap: 'profiles', existingProfilesConfigMapKey: 'edge.yaml' },
    },
  },
  {
    name: 'webhooks and the lookup of their secret',
    values: {
      redis,
      controlPlane: {
        webhooks: {
          urlsSecret: 'webhooks',
          signingSecret: 'webhooks',
          signingSecretKey: 'signing',
          allowLocal: true,
        },
        secretLookup: { tokenSecret: 'lookup', tlsSecret: 'lookup-tls' },
      },
    },
  },
  {
    name: 'admission with a certificate of cert-manager',
    values: {
      redis,
      certManager: { enabled: true },
      admission: { enabled: true },
      networkPolicy: { enabled: true },
      controlPlane: { watchNamespaces: ['shop', 'weir-system'] },
    },
  },
  {
    name: 'admission with a certificate of a Secret',
    values: {
      redis,
      admission: {
        enabled: true,
        tlsSecret: 'admission-tls',
        caBundle: '-----BEGIN CERTIFICATE-----\nMII=\n-----END CERTIFICATE-----\n',
        failurePolicy: 'Fail',
        timeoutSeconds: 10,
        namespaceSelector: { matchLabels: { limits: 'checked' } },
      },
      controlPlane: { ports: { admission: 9443 } },
      networkPolicy: { enabled: true, admissionFrom: [{ ipBlock: { cidr: '10.0.0.0/28' } }] },
    },
  },
  {
    name: 'two watched namespaces',
    values: {
      redis,
      controlPlane: {
        className: 'edge',
        watchNamespaces: ['shop', 'weir-system'],
        labelSelector: 'team=payments,tier in (edge,core)',
        domainOwners: 'payments*=shop; *=weir-system',
        domainOwnership: 'claimed',
        mergeDomainConfig: true,
        replicas: 1,
      },
    },
  },
  {
    name: 'rules in a ConfigMap',
    values: {
      redis,
      controlPlane: { enabled: false },
      limiter: {
        rules: {
          'shop.yaml': {
            domain: 'shop',
            descriptors: [{ key: 'address', rate_limit: { unit: 'minute', requests_per_unit: 5 } }],
          },
          'mail.yml': 'domain: mail\ndescriptors:\n  - key: tenant\n',
        },
      },
    },
  },
  {
    name: 'rules in a ConfigMap of somebody else',
    values: { redis, controlPlane: { enabled: false }, limiter: { existingRulesConfigMap: 'rules' } },
  },
  {
    name: 'limiters of a control plane elsewhere',
    values: {
      redis,
      crds: { enabled: false },
      controlPlane: { enabled: false },
      limiter: {
        xdsAddress: 'weir-control-plane.other.svc:18000',
        fleet: 'edge',
        xdsTls: { enabled: true },
      },
    },
  },
  {
    name: 'a control plane alone, for limiters of other namespaces',
    values: {
      limiter: { enabled: false },
      crds: { keep: false },
      controlPlane: {
        xds: {
          tokenAudience: 'rules',
          tokensSecret: 'tokens',
          clientFleets: 'system:serviceaccount:shop:limiter=shop, token:edge=edge',
        },
      },
    },
  },
  {
    name: 'limiters that prove nothing',
    values: {
      redis,
      limiter: { xdsToken: { audience: '' } },
      controlPlane: { xds: { serviceAccounts: false, allowAnonymous: true } },
    },
  },
  {
    name: 'limiters with a token of a Secret',
    values: {
      redis,
      limiter: { xdsToken: { existingSecret: 'limiter', existingSecretKey: 'edge' } },
      controlPlane: {
        extraEnv: [{ name: 'LEASE_NAME', value: 'leader' }],
        xds: { serviceAccounts: false, tokensSecret: 'tokens', clientFleets: 'token:edge=default' },
      },
    },
  },
  {
    name: 'everything for Prometheus and Grafana, behind policies',
    values: {
      redis,
      serviceMonitor: {
        enabled: true,
        namespace: 'monitoring',
        interval: '30s',
        scrapeTimeout: '10s',
        relabelings: [{ action: 'labeldrop', regex: 'pod' }],
        metricRelabelings: [{ action: 'drop', sourceLabels: ['__name__'], regex: 'go_.*' }],
        labels: { release: 'prometheus' },
      },
      prometheusRule: { enabled: true, labels: { release: 'prometheus' } },
      dashboard: { enabled: true, annotations: { folder: 'Weir' } },
      networkPolicy: {
        enabled: true,
        limiterFrom: [{ namespaceSelector: { matchLabels: { proxies: 'yes' } } }],
        metricsFrom: [{ namespaceSelector: { matchLabels: { prometheus: 'yes' } } }],
        xdsFrom: [{ podSelector: { matchLabels: { limiter: 'other' } } }],
        secretLookupFrom: [{ podSelector: {} }],
      },
      controlPlane: {
        webhooks: { urlsSecret: 'webhooks', signingSecret: 'webhooks' },
        secretLookup: { tokenSecret: 'lookup', allowPlain: true },
      },
    },
  },
  {
    name: 'statistics for statsd',
    values: {
      redis,
      limiter: {
        metrics: { enabled: false },
        extraEnv: [
          { name: 'USE_STATSD', value: 'true' },
          { name: 'STATSD_HOST', value: 'statsd' },
        ],
      },
    },
  },
  {
    name: 'no statistics, and so no port of them',
    values: { redis, limiter: { metrics: { enabled: false }, ports: { debug: 9090 } } },
  },
  {
    name: 'callers from outside',
    values: {
      redis,
      listenAddress: '::',
      limiter: {
        service: {
          type: 'LoadBalancer',
          metricsPort: 8081,
          loadBalancerClass: 'service.example/lb',
          loadBalancerSourceRanges: ['203.0.113.0/24'],
          externalTrafficPolicy: 'Local',
          ipFamilyPolicy: 'PreferDualStack',
          // The API server of the tests has no IPv6.
          ipFamilies: ['IPv4'],
        },
      },
      controlPlane: { service: { ipFamilyPolicy: 'SingleStack', ipFamilies: ['IPv4'] } },
    },
  },
  {
    name: 'what charts usually have',
    values: {
      redis,
      global: { imageRegistry: 'global.example', imagePullSecrets: [{ name: 'global' }, 'other'] },
      nameOverride: 'limits',
      commonLabels: { team: 'edge' },
      commonAnnotations: { owner: 'edge' },
      image: { repository: 'team/weir', digest: `sha256:${'0'.repeat(64)}`, pullPolicy: 'Always' },
      imagePullSecrets: [{ name: 'own' }],
      listenAddress: '::',
      limiter: {
        workers: 'auto',
        service: { headless: true, annotations: { a: 'b' } },
        podDisruptionBudget: { maxUnavailable: '25%' },
        autoscaling: {
          targetCPUUtilizationPercentage: 0,
          metrics: [
            {
              type: 'Resource',
              resource: { name: 'memory', target: { type: 'Utilization', averageUtilization: 80 } },
            },
          ],
          behavior: { scaleDown: { stabilizationWindowSeconds: 600 } },
        },
        resources: { limits: { cpu: 2 } },
        ...placed(),
        extraEnv: [
          { name: 'LOG_LEVEL', value: 'debug' },
          { name: 'NEAR_LIMIT_RATIO', value: '0.9' },
        ],
      },
      controlPlane: placed(),
    },
  },
];

function placed(): Values {
  return {
    serviceAccount: { create: false, name: 'somebody' },
    podLabels: { pod: 'label' },
    podAnnotations: { pod: 'annotation' },
    priorityClassName: 'system-cluster-critical',
    runtimeClassName: 'gvisor',
    dnsPolicy: 'None',
    dnsConfig: { nameservers: ['10.0.0.10'], options: [{ name: 'ndots', value: '2' }] },
    hostAliases: [{ ip: '10.0.0.20', hostnames: ['redis.example'] }],
    revisionHistoryLimit: 2,
    extraInitContainers: [{ name: 'first', image: 'first:1', args: ['wait'], securityContext: restricted }],
    extraContainers: [{ name: 'beside', image: 'beside:1', securityContext: restricted }],
    nodeSelector: { disk: 'fast' },
    tolerations: [{ key: 'edge', operator: 'Exists' }],
    affinity: {
      podAntiAffinity: {
        preferredDuringSchedulingIgnoredDuringExecution: [
          { weight: 1, podAffinityTerm: { topologyKey: 'zone', labelSelector: { matchLabels: { a: 'b' } } } },
        ],
      },
    },
    topologySpreadConstraints: [
      { maxSkew: 1, topologyKey: 'zone', whenUnsatisfiable: 'DoNotSchedule', labelSelector: {} },
    ],
    extraEnv: [{ name: 'NODE_EXTRA_CA_CERTS', value: '/extra/ca.crt' }],
    extraEnvFrom: [{ configMapRef: { name: 'more' } }],
    extraVolumes: [{ name: 'extra', secret: { secretName: 'extra' } }],
    extraVolumeMounts: [{ name: 'extra', mountPath: '/extra', readOnly: true }],
  };
}
