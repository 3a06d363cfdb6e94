import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { ChildProgram } from './child-program.ts';
import { freePort } from './free-port.ts';

export interface Twemproxy {
  /** `host:port`. */
  url: string;
  stop(): Promise<unknown>;
}

/** A twemproxy before the Redis servers on these ports; `path` is the program, its file goes into the folder. */
export async function startTwemproxy(path: string, folder: string, ports: number[]): Promise<Twemproxy> {
  const url = `127.0.0.1:${await freePort()}`;
  const file = join(folder, 'nutcracker.yml');
  const list = ports.map((port, i) => `    - 127.0.0.1:${port}:1 server${i}\n`);
  const pool = 'redis: true\n  hash: fnv1a_64\n  distribution: ketama\n  timeout: 5000';
  writeFileSync(file, `pool:\n  listen: ${url}\n  ${pool}\n  servers:\n${list.join('')}`);
  const args = ['-c', file, '-s', String(await freePort()), '-a', '127.0.0.1'];
  const proxy = new ChildProgram({ command: path, args });
  return { url, stop: () => proxy.stop() };
}
