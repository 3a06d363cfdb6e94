/** The chart's admission webhook for RateLimitConfigs, of a control plane on this machine: its API server reaches no Service. */
import { readFileSync } from 'node:fs';
import type { ApiServer } from './api-server.ts';

const name = 'ratelimitconfigs.ratelimit.weir.dev';

export interface PlayedWebhook {
  /** ADMISSION_PORT. */
  port: number;
  caFile: string;
}

/** What cannot ask the control plane is rejected, so that no test passes by it. */
export function installWebhook(api: ApiServer, { port, caFile }: PlayedWebhook): void {
  const caBundle = readFileSync(caFile).toString('base64');
  const webhook = {
    name,
    admissionReviewVersions: ['v1'],
    clientConfig: { url: `https://127.0.0.1:${port}/validate`, caBundle },
    failurePolicy: 'Fail',
    matchPolicy: 'Equivalent',
    rules: [
      {
        apiGroups: ['ratelimit.weir.dev'],
        apiVersions: ['v1alpha1'],
        operations: ['CREATE', 'UPDATE', 'DELETE'],
        resources: ['ratelimitconfigs', 'ratelimitoverrides'],
      },
    ],
    sideEffects: 'None',
    timeoutSeconds: 30,
  };
  const kind = 'ValidatingWebhookConfiguration';
  const object = {
    apiVersion: 'admissionregistration.k8s.io/v1',
    kind,
    metadata: { name },
    webhooks: [webhook],
  };
  api.apply(JSON.stringify(object));
}

export function removeWebhook(api: ApiServer): void {
  api.delete('validatingwebhookconfigurations', { name });
}
