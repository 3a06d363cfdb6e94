/** Reservations as Kuadrant's gateways make them: by a client that another maker's compiler made of limitador's proto file. */
import { execFile } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { expect, it } from 'vitest';
import { describeWithServer } from '../support/describe-with-server.ts';
import { grpcioProgram } from '../support/find-server.ts';
import { InProcessLimiter } from '../support/in-process-limiter.ts';
import { suiteFolder } from '../support/suite-folder.ts';

// A year, lest a window ends while a test counts.
const rules = `domain: llm
descriptors:
  - key: team
    value: large
    rate_limit: { unit: year, requests_per_unit: 9007199254740991 }
  - key: team
    value: a
    rate_limit: { unit: year, requests_per_unit: 100 }
  - key: team
    value: b
    rate_limit: { unit: year, requests_per_unit: 100 }
`;

describeWithServer("limitador's proto file, compiled for Python", grpcioProgram, (python) => {
  const folder = suiteFolder();

  it('checks, reports, reserves and commits', { timeout: 120_000 }, async () => {
    for (const name of ['config', 'compiled']) mkdirSync(join(folder, name));
    writeFileSync(join(folder, 'config/llm.yaml'), rules);
    const limiter = await InProcessLimiter.start({ env: { RUNTIME_ROOT: folder } });
    try {
      const script = join(import.meta.dirname, 'kuadrant_client.py');
      const protos = join(import.meta.dirname, '../../proto');
      const args = [script, `localhost:${limiter.ports.grpc}`, protos, join(folder, 'compiled')];
      const reported = JSON.parse((await promisify(execFile)(python, args)).stdout);
      expect(reported).toEqual({
        fresh: 'OK',
        reserved: ['OK', 44],
        refused: ['OVER_LIMIT', ''],
        committed: [true, true],
        rest: 'OK',
        none_left: 'OVER_LIMIT',
        released: true,
        left_again: 'OK',
        reported: ['OK', false, 'OVER_LIMIT'],
        beyond: ['OK', 'OVER_LIMIT'],
        nothing: 'OK',
        unlimited: ['OK', 'OK'],
        large: ['OK', 'OVER_LIMIT', true, 'OK'],
        too_large: ['INVALID_ARGUMENT', 'amount must be at most 9007199254740991'],
      });
      const stats = await limiter.stats();
      expect(stats.get('ratelimit_server.Reserve.total_requests')).toBe(7);
    } finally {
      await limiter.stop();
    }
  });
});
