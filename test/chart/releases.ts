/** Releases of the chart on an API server. */
import { expect } from 'vitest';
import type { ApiServer } from '../support/api-server.ts';
import { eventually } from '../support/eventually.ts';
import { chartFolder, runHelm, type Values } from '../support/helm-chart.ts';

const redis = { url: 'redis:6379' };

export interface Releases {
  /** Runs a command of Helm, which has to succeed. Returns what it printed. */
  helm(command: readonly string[], values?: Values): string;
  install(name?: string): string;
  uninstall(name?: string): void;
}

/** In the namespace `shop`. */
export function releasesOn(api: () => ApiServer): Releases {
  const helm = (command: readonly string[], values?: Values): string => {
    const run = runHelm([...command, '--namespace', 'shop'], values, api().kubeconfig());
    expect([run.status, run.stderr.replaceAll(/^(level|W\d|time).*\n/gm, '')]).toEqual([0, '']);
    return run.stdout;
  };
  return {
    helm,
    install: (name = 'weir') => helm(['install', name, chartFolder], { redis }),
    uninstall: (name = 'weir') => void helm(['uninstall', name, '--cascade=background']),
  };
}

/** Removes the kinds of Weir, with all objects. */
export async function removeDefinitions(api: ApiServer): Promise<void> {
  const left = () =>
    api.names('customresourcedefinitions').filter((name) => name.endsWith('.ratelimit.weir.dev'));
  for (const name of left()) api.delete('customresourcedefinitions', { name });
  await eventually(() => expect(left()).toEqual([]));
}
