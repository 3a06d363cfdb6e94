/** What documented-mistakes.yaml records: what users are sent about each mistake that the documents describe. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { load } from 'js-yaml';
import type { ApiServer } from './api-server.ts';

interface Recorded {
  mistake: string;
  spec: unknown;
  /** Lines of the API server; left out where it finds nothing wrong. */
  server?: string[];
  /** Of Kubernetes 1.30, where it says more than other words. */
  oldestServer?: string[];
  /** Of the webhook, which the API server then asks. */
  webhook?: string;
}

const file = join(import.meta.dirname, 'documented-mistakes.yaml');
const recorded = load(readFileSync(file, 'utf8')) as Record<string, Recorded[]>;

export const documentedMistakes = Object.entries(recorded).flatMap(([place, mistakes]) =>
  mistakes.map(({ mistake, spec, server = [], oldestServer = server, webhook = '' }) => {
    const lines = { server: server.sort(), oldestServer: oldestServer.sort() };
    return { name: `${place}: ${mistake}`, spec, ...lines, webhook };
  }),
);

/** What the API server says about a new object, the lines that kubectl prints, sorted: their order varies. None where it takes it. */
export async function rejectionLines(api: ApiServer, namespace: string, spec: unknown): Promise<string[]> {
  const { status, body } = await api.tryOut('ratelimitconfigs', {
    apiVersion: 'ratelimit.weir.dev/v1alpha1',
    kind: 'RateLimitConfig',
    metadata: { name: 'mistake', namespace },
    spec,
  });
  if (status === 201) return [];
  const { message, details } = JSON.parse(body) as {
    message: string;
    details?: { causes?: { field: string; message: string }[] };
  };
  return details?.causes?.map((cause) => `${cause.field}: ${cause.message}`).sort() ?? [message];
}

/** Kubernetes 1.30 says these in other words. */
export function inNewerWords(text: string): string {
  return text
    .replace(/Too long: may not be longer than (\d+)/g, 'Too long: may not be more than $1 bytes')
    .replace(/in body must be of type integer(?!,)/g, 'in body must be of type int64')
    .replaceAll('Invalid value: "null": ', 'Invalid value: null: ')
    .replaceAll('Invalid value: "object": ', 'Invalid value: ');
}
