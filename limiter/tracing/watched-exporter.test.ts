import type { SpanExporter } from '@opentelemetry/sdk-trace';
import { describe, expect, it } from 'vitest';
import { WatchedExporter } from './open-telemetry.ts';

type Result = Parameters<Parameters<SpanExporter['export']>[1]>[0];

function reported(results: Result[]): string[] {
  const changes: string[] = [];
  const exporter: SpanExporter = {
    export: (_, done) => done(results.shift()!),
    shutdown: () => Promise.resolve(),
  };
  const watched = new WatchedExporter(exporter, {
    sent: () => {},
    failed: () => {},
    changed: (works, reason) => changes.push(`${works} ${reason}`),
  });
  for (let left = results.length; left > 0; left -= 1) watched.export([], () => {});
  return changes;
}

const failure = (message: string): Result => ({ code: 1, error: new Error(message) });

describe('an export that fails', () => {
  it('is reported once, and its end once', () => {
    const works: Result = { code: 0 };
    expect(reported([works, failure('a'), failure('b'), works, works, failure('c')])).toEqual([
      'false a',
      'true ',
      'false c',
    ]);
  });

  it.each([
    [
      '14 UNAVAILABLE: No connection established. Last error: x. Resolution note: ',
      '14 UNAVAILABLE: No connection established. Last error: x',
    ],
    ['14 UNAVAILABLE: x. Resolution note: no such name', '14 UNAVAILABLE: x. Resolution note: no such name'],
    ['a'.repeat(300), 'a'.repeat(200)],
  ])('has the reason of %j', (message, reason) => {
    expect(reported([failure(message)])).toEqual([`false ${reason}`]);
  });
});
