/**
 * `npm run bench:control-plane`: measures how fast changes of RateLimitConfigs reach limiters. If the system has two cores and `taskset`,
 * the control plane runs on one core, and 1,000 streams of limiters on the other. Objects come from memory.
 */
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { availableParallelism } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import { defineFlags, scriptFlags } from '../test/support/script-flags.ts';
import { median } from './bench-figures.ts';
import type { ObjectNumbers } from './control-plane-objects.ts';
import type { Order, Reported } from './control-plane-server.ts';
import { keepOnCore } from './process-cpu.ts';
import { type Arrival, type StreamForm, XdsStreams } from './xds-streams.ts';

const rounds = 11;
const patienceMs = 120_000;
const targets = { oneChangeMs: 250, everyFleetMs: 2_000 };

interface Numbers extends ObjectNumbers {
  limiters: number;
}

interface Result {
  name: string;
  median: number;
  max: number;
  unit: string;
  target?: number;
}

/** A control plane and its limiters. */
class Setting {
  readonly numbers: Numbers;
  readonly #server: ChildProcess;
  readonly #streams: XdsStreams;
  #arrivals: Arrival[] = [];
  #check = (): void => {};

  constructor(numbers: Numbers, server: ChildProcess, form: StreamForm) {
    this.numbers = numbers;
    this.#server = server;
    this.#streams = new XdsStreams(form, (arrival) => {
      this.#arrivals.push(arrival);
      this.#check();
    });
  }

  static async open(
    numbers: Numbers,
    form: StreamForm = 'stateOfTheWorld',
  ): Promise<{ setting: Setting; firstMs: number; bytes: number }> {
    const server = fork(new URL('./control-plane-server.ts', import.meta.url), [JSON.stringify(numbers)]);
    if (server.pid !== undefined) keepOnCore(server.pid, 0);
    const setting = new Setting(numbers, server, form);
    const listening = await setting.#reported('listening');
    const startMs = performance.now();
    const arrived = setting.#arrived(numbers.limiters);
    for (let i = 0; i < numbers.limiters; i++) {
      setting.#streams.open(listening.xds, `fleet-${i % numbers.fleets}`, `limiter-${i}`);
    }
    const last = await arrived;
    await setting.#settle();
    return { setting, firstMs: last.atMs - startMs, bytes: last.bytes };
  }

  /** Measures the milliseconds from the change to the last of this number of arrivals. */
  async time(order: Order, arrivals: number): Promise<number> {
    const arrived = this.#arrived(arrivals);
    const startMs = performance.now();
    this.#server.send(order);
    const { atMs } = await arrived;
    await this.#settle();
    return atMs - startMs;
  }

  /** Measures the cost of one change for the control plane, and the bytes that it sends. */
  async cost(index: number): Promise<{ cpuMs: number; bytes: number }> {
    const before = await this.usage();
    await this.time({ do: 'change', index }, this.numbers.limiters);
    const after = await this.usage();
    return {
      cpuMs: after.cpuMs - before.cpuMs,
      bytes: this.#arrivals.reduce((sum, { bytes }) => sum + bytes, 0),
    };
  }

  /** Makes 1,000 changes of objects of one fleet within a second, and counts the responses to its limiters. */
  async storm(): Promise<number> {
    const { fleets, objects, limiters } = this.numbers;
    const own = Math.max(1, Math.floor(objects / fleets));
    this.#arrivals = [];
    const startMs = performance.now();
    for (let i = 0; i < 1_000; i++) {
      this.#server.send({ do: 'change', index: (i % own) * fleets } satisfies Order);
      const aheadMs = startMs + i - performance.now();
      if (aheadMs > 1) await sleep(aheadMs);
    }
    await sleep(1_000);
    return this.#arrivals.length / Math.max(1, Math.ceil(limiters / fleets));
  }

  async usage(): Promise<Extract<Reported, { is: 'usage' }>> {
    const reported = this.#reported('usage');
    this.#server.send({ do: 'usage' } satisfies Order);
    return reported;
  }

  async close(): Promise<void> {
    this.#streams.close();
    const ended = once(this.#server, 'exit');
    this.#server.disconnect();
    await ended;
  }

  async #reported<Is extends Reported['is']>(is: Is): Promise<Extract<Reported, { is: Is }>> {
    for (;;) {
      const [reported] = (await once(this.#server, 'message')) as [Reported];
      if (reported.is === is) return reported as Extract<Reported, { is: Is }>;
    }
  }

  #arrived(count: number): Promise<Arrival> {
    this.#arrivals = [];
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => {
        reject(new Error(`${this.#arrivals.length} of ${count} snapshots arrived in ${patienceMs} ms`));
      }, patienceMs);
      this.#check = () => {
        if (this.#arrivals.length < count) return;
        clearTimeout(timer);
        this.#check = () => {};
        resolve(this.#arrivals.at(-1) as Arrival);
      };
    });
  }

  /** Waits for the acknowledgements and statuses of the previous change, so that they do not count for the next one. */
  async #settle(): Promise<void> {
    await sleep(400);
  }
}

function timed(name: string, times: readonly number[], target?: number): Result {
  const result = { name, median: median(times), max: Math.max(...times), unit: 'ms' };
  return target === undefined ? result : { ...result, target };
}

async function measureFleets(numbers: Numbers): Promise<Result[]> {
  const { setting, firstMs, bytes } = await Setting.open(numbers);
  const { fleets, limiters } = numbers;
  const results = [
    timed(`first snapshots of ${limiters} limiters (${Math.round(bytes / 1024)} KiB each)`, [firstMs]),
  ];
  const one: number[] = [];
  for (let i = 0; i < rounds; i++) {
    one.push(await setting.time({ do: 'change', index: i % fleets }, Math.ceil(limiters / fleets)));
  }
  results.push(timed('one change, to all limiters of its fleet', one, targets.oneChangeMs));
  const all: number[] = [];
  for (let i = 0; i < rounds; i++) all.push(await setting.time({ do: 'change every fleet' }, limiters));
  results.push(timed('a change of every fleet, to all limiters', all, targets.everyFleetMs));
  const pushes = await setting.storm();
  results.push({
    name: '1,000 changes in a second: pushes to each limiter',
    median: pushes,
    max: pushes,
    unit: '',
  });
  const { rssMiB, cpuMs } = await setting.usage();
  results.push({ name: 'memory of the control plane', median: rssMiB, max: rssMiB, unit: 'MiB' });
  results.push({ name: 'CPU of all that', median: cpuMs, max: cpuMs, unit: 'ms' });
  await setting.close();
  return results;
}

async function measureOneFleet(name: string, numbers: Numbers): Promise<Result[]> {
  const { setting, firstMs, bytes } = await Setting.open(numbers);
  const times: number[] = [];
  for (let i = 0; i < 5; i++) times.push(await setting.time({ do: 'change', index: i }, numbers.limiters));
  const { rssMiB } = await setting.usage();
  await setting.close();
  const size = `${(bytes / 1024 / 1024).toFixed(2)} MiB`;
  return [
    timed(`${name} (${size}): first snapshots`, [firstMs]),
    timed(`${name}: one change, to all its limiters`, times),
    { name: `${name}: memory`, median: rssMiB, max: rssMiB, unit: 'MiB' },
  ];
}

/** Measures one change of many objects that affects all limiters of one fleet, with either form of xDS. */
async function measureForms(numbers: Numbers): Promise<Result[]> {
  const results: Result[] = [];
  for (const form of ['stateOfTheWorld', 'incremental'] as const) {
    const { setting } = await Setting.open(numbers, form);
    const costs: { cpuMs: number; bytes: number }[] = [];
    for (let i = 0; i < 3; i++) costs.push(await setting.cost(i));
    await setting.close();
    const name = `one of ${numbers.objects} objects to ${numbers.limiters} limiters, ${form}`;
    results.push(
      timed(
        `${name}: CPU`,
        costs.map(({ cpuMs }) => cpuMs),
      ),
    );
    const mebibytes = costs.map(({ bytes }) => bytes / 1024 / 1024);
    results.push({ ...timed(`${name}: sent`, mebibytes), unit: 'MiB' });
  }
  return results;
}

function number(byDefault: number) {
  return { type: 'number', min: 1, max: 1_000_000, whole: true, default: byDefault } as const;
}

const { json, ...numbers } = scriptFlags(
  defineFlags({
    help: `Usage: npm run bench:control-plane -- [flags]

Measures how fast changes of RateLimitConfigs reach limiters.

  --limiters <n>  default 1000
  --fleets <n>    default 100
  --objects <n>   default 5000
  --rules <n>     of each object (default 20)
  --json          prints the figures as JSON
`,
    rows: {
      limiters: number(1000),
      fleets: number(100),
      objects: number(5000),
      rules: number(20),
      json: { type: 'boolean' },
    },
  }),
);
if (availableParallelism() > 1) keepOnCore(process.pid, 1);
const results = await measureFleets(numbers);
const { limiters, objects, rules } = numbers;
results.push(
  ...(await measureOneFleet(`one fleet of ${limiters} limiters`, {
    limiters,
    fleets: 1,
    objects: 50,
    rules,
  })),
  ...(await measureOneFleet(`one fleet of ${objects * rules} rules`, {
    limiters: 10,
    fleets: 1,
    objects,
    rules,
  })),
);
// Objects have only one rule, because state of the world sends all of them to each limiter, and this process reads them.
results.push(...(await measureForms({ limiters, fleets: 1, objects, rules: 1 })));
if (json) console.log(JSON.stringify(results));
else {
  console.log(
    `${limiters} limiters in ${numbers.fleets} fleets, ${objects} objects with ${objects * rules} rules\n`,
  );
  for (const { name, median: middle, max, unit, target } of results) {
    const wanted = target === undefined ? '' : `, wanted below ${target}`;
    const spread = middle === max ? '' : ` (max ${max.toFixed(0)})`;
    console.log(
      `${name.padEnd(64)} ${(middle < 10 ? middle.toFixed(2) : middle.toFixed(0)).padStart(7)} ${unit}${spread}${wanted}`,
    );
  }
}
