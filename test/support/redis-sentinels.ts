import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Redis } from 'ioredis';
import { ChildProgram } from './child-program.ts';
import { eventually } from './eventually.ts';
import { freePort } from './free-port.ts';
import { type RedisServer, startRedis } from './redis-server.ts';

export interface SentinelTrioOptions {
  /** The program redis-server, which is a sentinel with `--sentinel`. */
  path: string;
  /** For the sentinels' files; the caller removes it. */
  folder: string;
  /** Password of master and replica. */
  password?: string;
  /** Password of the sentinels. */
  sentinelPassword?: string;
}

/** A master and a replica that three sentinels watch, on loopback. The master is called `mymaster`. */
export interface SentinelTrio {
  servers: readonly [RedisServer, RedisServer];
  sentinelPorts: readonly number[];
  /** As REDIS_URL wants it. */
  url: string;
  /** Port of the master that the sentinels name. */
  masterPort(): Promise<number>;
  stop(): Promise<void>;
}

export async function startSentinelTrio(options: SentinelTrioOptions): Promise<SentinelTrio> {
  const { path, password = '', sentinelPassword = '' } = options;
  const login = password === '' ? [] : ['--requirepass', password, '--masterauth', password];
  const args = [...login, '--repl-diskless-sync-delay', '0'];
  const master = await startRedis({ path, args });
  const replica = await startRedis({
    path,
    args: [...args, '--replicaof', '127.0.0.1', String(master.port)],
  });
  const sentinelPorts = [await freePort(), await freePort(), await freePort()];
  const programs = sentinelPorts.map((port) => startSentinel(options, port, master.port));
  const trio: SentinelTrio = {
    servers: [master, replica],
    sentinelPorts,
    url: ['mymaster', ...sentinelPorts.map((port) => `127.0.0.1:${port}`)].join(','),
    masterPort: () =>
      ask(sentinelPorts[0] as number, sentinelPassword, async (client) => {
        const reply = await client.call('SENTINEL', 'get-master-addr-by-name', 'mymaster');
        return Number((reply as string[])[1]);
      }),
    stop: async () => {
      await Promise.all(programs.map((program) => program.stop('SIGKILL')));
      await Promise.all([master.stop(), replica.stop()]);
    },
  };
  try {
    // A failover needs sentinels that know each other and the replica, and a replica that holds what the master does.
    for (const port of sentinelPorts)
      await informed(port, sentinelPassword, 'sentinel', /status=ok,.*slaves=1,sentinels=3/);
    await informed(replica.port, password, 'replication', /master_link_status:up/);
    return trio;
  } catch (error) {
    await trio.stop();
    throw error;
  }
}

async function ask<T>(port: number, password: string, act: (client: Redis) => Promise<T>): Promise<T> {
  const client = new Redis(port, '127.0.0.1', {
    protocol: 2,
    retryStrategy: () => null,
    enableReadyCheck: false,
    ...(password === '' ? {} : { password }),
  });
  client.on('error', () => {});
  try {
    return await act(client);
  } finally {
    client.disconnect();
  }
}

/** Resolves when this section of the server's INFO matches. */
function informed(port: number, password: string, section: string, pattern: RegExp): Promise<void> {
  const look = (client: Redis) => client.info(section);
  return eventually(
    async () => {
      const text = String(await ask(port, password, look));
      if (!pattern.test(text)) throw new Error(`not ready: ${text}`);
    },
    { timeoutMs: 30_000 },
  );
}

function startSentinel(options: SentinelTrioOptions, port: number, masterPort: number): ChildProgram {
  const { path, folder, password = '', sentinelPassword = '' } = options;
  const file = join(folder, `sentinel-${port}.conf`);
  const lines = [
    'bind 127.0.0.1',
    `port ${port}`,
    `dir ${folder}`,
    `sentinel monitor mymaster 127.0.0.1 ${masterPort} 2`,
    'sentinel down-after-milliseconds mymaster 500',
    'sentinel failover-timeout mymaster 3000',
  ];
  if (password !== '') lines.push(`sentinel auth-pass mymaster ${password}`);
  if (sentinelPassword !== '') {
    lines.push(`requirepass ${sentinelPassword}`, `sentinel sentinel-pass ${sentinelPassword}`);
  }
  writeFileSync(file, `${lines.join('\n')}\n`);
  return new ChildProgram({ command: path, args: [file, '--sentinel'] });
}
