/** Which programs that this process started talk to a server, by proc(5); none where the system has no /proc. */
import { existsSync, readdirSync, readFileSync, readlinkSync } from 'node:fs';

/** States of a TCP socket in /proc/net/tcp. */
const established = '01';
const listens = '0A';

/** Pid and command line of each descendant with an open connection to this port of loopback, except the server itself. */
export function programsConnectedTo(port: number): string[] {
  const end = `:${port.toString(16).toUpperCase().padStart(4, '0')}`;
  const rows = ['/proc/net/tcp', '/proc/net/tcp6'].flatMap(rowsOf);
  const clients = socketsOf(
    rows.filter(({ remote, state }) => remote.endsWith(end) && state === established),
  );
  const servers = socketsOf(rows.filter(({ local, state }) => local.endsWith(end) && state === listens));
  return descendants(process.pid)
    .filter((pid) => hasSocket(pid, clients) && !hasSocket(pid, servers))
    .map((pid) => `${pid} ${read(`/proc/${pid}/cmdline`).replaceAll('\0', ' ').trim()}`);
}

interface Row {
  local: string;
  remote: string;
  state: string;
  inode: string;
}

function rowsOf(table: string): Row[] {
  return read(table)
    .split('\n')
    .slice(1)
    .map((line) => line.trim().split(/\s+/))
    .map(([, local = '', remote = '', state = '', , , , , , inode = '']) => ({
      local,
      remote,
      state,
      inode,
    }));
}

function socketsOf(rows: readonly Row[]): Set<string> {
  return new Set(rows.map(({ inode }) => `socket:[${inode}]`));
}

function descendants(root: number): number[] {
  const parents = new Map<number, number>();
  for (const name of existsSync('/proc') ? readdirSync('/proc') : []) {
    if (!/^\d+$/.test(name)) continue;
    // Behind the name of the program, which may contain anything, are its state and its parent.
    const parent = /^\d+ \(.*\) \S (\d+)/s.exec(read(`/proc/${name}/stat`))?.[1];
    if (parent !== undefined) parents.set(Number(name), Number(parent));
  }
  const isBelow = (pid: number | undefined): boolean =>
    pid !== undefined && (pid === root || isBelow(parents.get(pid)));
  return [...parents.keys()].filter((pid) => pid !== root && isBelow(parents.get(pid)));
}

function hasSocket(pid: number, sockets: ReadonlySet<string>): boolean {
  try {
    const folder = `/proc/${pid}/fd`;
    return readdirSync(folder).some((fd) => sockets.has(linkOf(`${folder}/${fd}`)));
  } catch {
    return false;
  }
}

function linkOf(path: string): string {
  try {
    return readlinkSync(path);
  } catch {
    return '';
  }
}

/** Empty where the process has ended. */
function read(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return '';
  }
}
