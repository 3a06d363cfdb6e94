import { parseControlPlaneSettings } from '../../control-plane/settings/settings.ts';
import { parseLimiterSettings } from '../../limiter/settings/settings.ts';
import type { Container, PodTemplate, RenderedObject } from '../support/helm-chart.ts';

/** Stand-ins for what a Secret or the pod's own fields would say. */
const standIns: Readonly<Record<string, string>> = {
  REDIS_URL: 'redis:6379',
  REDIS_PERSECOND_URL: 'redis:6379',
  WEBHOOK_URLS: 'https://hooks.example/weir',
  POD_NAME: 'weir-0',
  POD_NAMESPACE: 'weir-system',
};

/** The environment of a rendered container, as its program would see it. */
export function environmentOf({ env }: Container): Record<string, string> {
  return Object.fromEntries(env.map(({ name, value }) => [name, value ?? standIns[name] ?? 'secret']));
}

/** What works, and is warned of all the same. */
const saidOnPurpose = /others on the network can read|^XDS_ALLOW_ANONYMOUS=true: /;

export function podsOf(objects: readonly RenderedObject[]): PodTemplate[] {
  return objects.filter(({ kind }) => kind === 'Deployment').map(({ spec }) => spec.template as PodTemplate);
}

/** Everything that the programs of these pods say about their environments, and variables that come twice. */
export function programFaults(objects: readonly RenderedObject[]): string[] {
  return podsOf(objects).flatMap(({ spec: { containers } }) => {
    const [container] = containers;
    const names = container.env.map(({ name }) => name);
    const twice = names.filter((name, i) => names.indexOf(name) !== i);
    const parse = container.name === 'limiter' ? parseLimiterSettings : parseControlPlaneSettings;
    const { errors = [], warnings } = parse(environmentOf(container));
    return [
      ...twice.map((name) => `${name} comes twice`),
      ...errors.map(({ message }) => message),
      ...warnings.filter((text) => !saidOnPurpose.test(text)),
    ];
  });
}
