/** docs/migrating.md: its commands, as they are written, go on with the counters of a Go service in the same Redis. */
import { spawnSync } from 'node:child_process';
import { Redis } from 'ioredis';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { ChildProgram, runVariables } from '../support/child-program.ts';
import { describeWithServer } from '../support/describe-with-server.ts';
import { commandsToRun, projectRoot } from '../support/documents.ts';
import { redisProgram } from '../support/find-server.ts';
import { type RedisServer, startRedis } from '../support/redis-server.ts';
import { weirProgram } from '../support/weir-program.ts';

const [check = '', start = '', ask = '', ...others] = commandsToRun('docs/migrating.md');
/** The same program, from the bundle of this run. */
const weir = (command: string): string =>
  command.replace('bin/weir', `'${process.execPath}' '${weirProgram}'`);
const env = { PATH: process.env['PATH'], ...runVariables() };

function shell(command: string): { status: number | null; output: string } {
  const { status, stdout, stderr } = spawnSync('sh', ['-c', command], {
    cwd: projectRoot,
    env,
    encoding: 'utf8',
  });
  return { status, output: stdout + stderr };
}

describeWithServer('moving over from the Go service', redisProgram, (path) => {
  let redis: RedisServer;
  let direct: Redis;
  let limiter: ChildProgram;
  let askHere: string;

  beforeAll(async () => {
    redis = await startRedis({ path });
    direct = new Redis(redis.port, '127.0.0.1');
    const anyPorts = { HOST: '127.0.0.1', PORT: '0', GRPC_PORT: '0', DEBUG_PORT: '0' };
    limiter = new ChildProgram({
      command: 'sh',
      args: ['-c', weir(start.replace('localhost:6379', `127.0.0.1:${redis.port}`))],
      cwd: projectRoot,
      env: { ...env, ...anyPorts },
      group: true,
    });
    const [, port] = await limiter.printed(/Listening for gRPC on '[^']*:(\d+)'/);
    askHere = `${weir(ask)} --dial-string 127.0.0.1:${port}`;
  });

  afterAll(async () => {
    direct?.disconnect();
    await limiter?.stop();
    await redis?.stop();
  });

  it('checks the rules as the Go program does', () => {
    expect(others).toEqual([]);
    expect(shell(weir(check))).toMatchObject({
      status: 0,
      output: expect.stringContaining('opening config file'),
    });
  });

  it('continues from the counter of the Go service, and leaves it the count', async () => {
    // As the Go service names and writes it. A minute that ends meanwhile begins with none.
    const keyNow = (): string => `rl_user_ann_${Math.floor(Date.now() / 60_000) * 60}`;
    for (let tries = 0; tries < 2; tries++) {
      const key = keyNow();
      await direct.set(key, 4, 'EX', 60);
      const last = shell(askHere);
      const first = shell(askHere);
      if (keyNow() !== key) continue;
      expect(last.output).toMatch(/^OK\n.* 0 left, limit 5 per minute/m);
      expect(first.output).toMatch(/^OVER_LIMIT\n/);
      expect(await direct.get(key)).toBe('6');
      expect(await direct.ttl(key)).toBeGreaterThan(0);
      return;
    }
    throw new Error('two minutes in a row ended meanwhile');
  });
});
