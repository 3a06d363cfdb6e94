import { beforeAll, expect, it } from 'vitest';
import { installPrerequisites } from '../support/cluster.ts';
import { describeWithApiServer } from '../support/describe-with-api-server.ts';

/** What the control plane may do, by namespace; what is not here is asked for below and denied. */
const allowed = [
  'list ratelimitconfigs.ratelimit.weir.dev -A',
  'watch ratelimitconfigs.ratelimit.weir.dev -A',
  'patch ratelimitconfigs.ratelimit.weir.dev --subresource=status -n default',
  'create events.events.k8s.io -n default',
  'patch events.events.k8s.io -n default',
  'create tokenreviews.authentication.k8s.io',
  'list namespaces',
  'watch namespaces',
  ...['get', 'update'].map((verb) => `${verb} leases.coordination.k8s.io/weir-control-plane -n weir-system`),
  ...['list', 'watch', 'create', 'patch', 'delete'].map(
    (verb) => `${verb} leases.coordination.k8s.io -n weir-system`,
  ),
  ...['list', 'watch', 'create', 'patch', 'delete'].map((verb) => `${verb} configmaps -n weir-system`),
  ...['list', 'watch', 'create'].map((verb) => `${verb} ratelimitfleets.ratelimit.weir.dev -n weir-system`),
  'patch ratelimitfleets.ratelimit.weir.dev --subresource=status -n weir-system',
  ...['list', 'watch'].map((verb) => `${verb} endpointslices.discovery.k8s.io -n weir-system`),
];

const denied = [
  'patch ratelimitconfigs.ratelimit.weir.dev -n default',
  'create ratelimitconfigs.ratelimit.weir.dev -n default',
  'delete ratelimitconfigs.ratelimit.weir.dev -n default',
  'list events.events.k8s.io -n default',
  'get leases.coordination.k8s.io -n default',
  'get leases.coordination.k8s.io -n weir-system',
  'get leases.coordination.k8s.io/another -n weir-system',
  'update leases.coordination.k8s.io/another -n weir-system',
  'create subjectaccessreviews.authorization.k8s.io',
  'create serviceaccounts/token -n weir-system',
  'list configmaps -n default',
  'patch ratelimitfleets.ratelimit.weir.dev -n weir-system',
  'delete ratelimitfleets.ratelimit.weir.dev -n weir-system',
  'list ratelimitfleets.ratelimit.weir.dev -n default',
  'list endpointslices.discovery.k8s.io -n default',
  'list configmaps -A',
  'get configmaps -n weir-system',
  'get secrets -n weir-system',
  'list pods -n weir-system',
  'patch namespaces',
  'get namespaces',
];

describeWithApiServer('the permissions in examples/kubernetes/rbac.yaml', (api) => {
  beforeAll(() => {
    installPrerequisites(api());
  });

  it.each(allowed)('allow the control plane to %s', (question) => {
    expect(api().can('control-plane', question)).toBe(true);
  });

  it.each(denied)('do not allow it to %s', (question) => {
    expect(api().can('control-plane', question)).toBe(false);
  });
});
