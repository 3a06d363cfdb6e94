/** Measures decisions per second of one key with h2load, an independent client: 8 connections with 50 streams each. */
import { execFile } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { promisify } from 'node:util';

import { shouldRateLimitPath } from '../limiter/service/should-rate-limit.ts';
import { grpcMessage } from '../test/support/grpc-message.ts';
import { processCpuUs } from './process-cpu.ts';

export interface HotKeyFigures {
  perSecond: number;
  cpuUs: number;
  /** The fraction of the server's core that was used. Below 1, the client was the bottleneck. */
  cores: number;
  failed: number;
}

export interface HotKeyOptions {
  h2load: string;
  pid: number;
  port: number;
  message: Uint8Array;
  /** The path of the file with the bodies of the calls. */
  bodyFile: string;
  calls: number;
}

export async function measureHotKey(options: HotKeyOptions): Promise<HotKeyFigures> {
  const { h2load, pid, port, bodyFile, calls } = options;
  writeFileSync(bodyFile, grpcMessage(options.message));
  const url = `http://127.0.0.1:${port}${shouldRateLimitPath}`;
  const headers = ['-H', 'content-type: application/grpc', '-H', 'te: trailers'];
  const run = (count: number): Promise<{ stdout: string }> => {
    const load = ['-c', '8', '-m', '50', '-n', String(count), '-d', bodyFile];
    return promisify(execFile)(h2load, [...load, ...headers, url]);
  };
  await run(calls >> 2);
  const cpuBeforeUs = processCpuUs(pid);
  const startedMs = performance.now();
  const { stdout } = await run(calls);
  const seconds = (performance.now() - startedMs) / 1000;
  const cpuUs = processCpuUs(pid) - cpuBeforeUs;
  const succeeded = Number(/(\d+) succeeded/.exec(stdout)?.[1]);
  return {
    perSecond: Math.round(Number(/, ([\d.]+) req\/s/.exec(stdout)?.[1])),
    cpuUs: cpuUs / succeeded,
    cores: cpuUs / 1e6 / seconds,
    failed: calls - succeeded,
  };
}
