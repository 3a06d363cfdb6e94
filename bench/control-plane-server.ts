/**
 * The process that `npm run bench:control-plane` measures: a whole control plane without Kubernetes. Its objects are in memory, and
 * change when the parent process sends a message.
 */
import type { Backing } from '../control-plane/backing.ts';
import { ControlPlane } from '../control-plane/control-plane.ts';
import type { ConfigStatus } from '../control-plane/model/config-object.ts';
import { noPolicy } from '../control-plane/reconcile/decide.ts';
import { parseControlPlaneSettings } from '../control-plane/settings/settings.ts';
import { createLogger } from '../process/log/pino-logger.ts';
import { systemClock, systemTimers } from '../process/time/clock.ts';
import { MemorySource, type ObjectNumbers } from './control-plane-objects.ts';

export type Order = { do: 'change'; index: number } | { do: 'change every fleet' } | { do: 'usage' };
export type Reported =
  | { is: 'listening'; xds: number; http: number }
  | { is: 'usage'; cpuMs: number; rssMiB: number };

const numbers = JSON.parse(process.argv[2] as string) as ObjectNumbers;
const source = new MemorySource(numbers);
const report = (reported: Reported): void => void process.send?.(reported);

const { settings } = parseControlPlaneSettings({
  SOURCE: 'DIRECTORY',
  MANIFESTS_DIRECTORY: 'in memory',
  XDS_HOST: '127.0.0.1',
  XDS_PORT: '0',
  HOST: '127.0.0.1',
  PORT: '0',
});
if (settings === undefined) throw new Error('the settings of the measurement are wrong');

const controlPlane = new ControlPlane({
  settings,
  openBacking: ({ learn }) => {
    const backing: Backing = {
      source,
      controllerName: undefined,
      replicas: {
        leads: true,
        leader: 'bench',
        publish: (limiters) => learn({ reports: [{ replica: 'bench', limiters }] }),
        confirm: (then) => then(),
      },
      events: { record: () => {} },
      statusWriter: {
        write: async ({ object, status }) => {
          source.setStatus(object.uid, status as ConfigStatus);
          return { is: 'written' };
        },
      },
      start: () => learn({ policy: noPolicy, acceptedSpecs: new Map(), leads: true }),
      share: () => {},
      close: async () => {},
    };
    return backing;
  },
  env: {},
  hostName: 'bench',
  signals: process,
  clock: systemClock,
  timers: systemTimers,
  random: Math.random,
  log: createLogger({ level: 'error', format: 'text', clock: systemClock }),
  onListening: ({ xds, http }) => report({ is: 'listening', xds: xds.port, http: http.port }),
});

process.on('message', (order: Order) => {
  if (order.do === 'change') source.change(order.index);
  else if (order.do === 'change every fleet') source.changeEveryFleet();
  else {
    const { user, system } = process.cpuUsage();
    const rssMiB = process.memoryUsage.rss() / 1024 / 1024;
    report({ is: 'usage', cpuMs: (user + system) / 1000, rssMiB });
  }
});
process.on('disconnect', () => process.exit(0));
process.exit(await controlPlane.run());
