import {
  mkdirSync,
  readlinkSync,
  renameSync,
  rmSync,
  symlinkSync,
  truncateSync,
  unlinkSync,
  watch,
  writeFileSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type Clock, systemClock, systemTimers, type Timers } from '../../../process/time/clock.ts';
import type { CounterKeys } from '../../../rules/counter-keys.ts';
import { formatRuleError } from '../../../rules/rule-error.ts';
import type { SourceCheckOptions } from '../../../rules/validate-sources.ts';
import { eventually } from '../../../test/support/eventually.ts';
import { ManualTimers } from '../../../test/support/manual-timers.ts';
import { temporaryFolder } from '../../../test/support/temporary-folder.ts';
import { ConfigSourceError, type LoadedRules } from '../config-source.ts';
import type { RuntimePaths } from './change-watch.ts';
import { FileConfigSource, type FileSourceLimits } from './file-source.ts';

type Event = { loaded: LoadedRules } | { failed: string[]; total: number } | { reach: string };

let root: string;
let source: FileConfigSource | undefined;
let events: Event[];
/** How many pairs of rules could meet in one key, as often as it was reported. */
let collisions: string[];
/** What else a review said, as often as it did. */
let warnings: string[][];

beforeEach(() => {
  root = temporaryFolder();
  events = [];
  collisions = [];
  warnings = [];
});
afterEach(() => source?.close());

interface Setup {
  paths?: Partial<RuntimePaths>;
  checks?: SourceCheckOptions;
  counterKeys?: CounterKeys;
  limits?: Partial<FileSourceLimits>;
  clock?: Clock;
  timers?: Timers;
}

async function start(setup: Setup = {}): Promise<void> {
  const { paths, checks = { mergeDomains: false }, counterKeys = 'unambiguous' } = setup;
  const { limits, clock = systemClock, timers = systemTimers } = setup;
  source = new FileConfigSource({
    paths: {
      root,
      subdirectory: '',
      appDirectory: 'config',
      ignoreDotFiles: false,
      watchRoot: false,
      ...paths,
    },
    checks,
    review: { counterKeys, sanitizeDescriptorMetricDots: false },
    clock,
    timers,
    limits: { checkIntervalMs: 50, ...limits },
  });
  await source.start({
    loaded: (loaded) => void events.push({ loaded }),
    unchanged: () => expect.unreachable('files are loaded each time'),
    failed: (errors, total) => events.push({ failed: errors.map(formatRuleError), total }),
    reviewed: (review) => {
      if ('problem' in review) expect.unreachable(review.problem);
      collisions.push(review.collisions?.count ?? 'none');
      warnings.push(review.warnings.map(({ source: from, text }) => `${from}: ${text}`));
    },
    unreachable: (reason) => events.push({ reach: reason }),
    reachable: () => events.push({ reach: 'reachable' }),
  });
}

/** Waits for the next event and takes it. */
async function next(): Promise<Event> {
  await eventually(() => expect(events).not.toEqual([]), { intervalMs: 5 });
  return events.shift()!;
}

async function nextDomains(...names: string[]): Promise<void> {
  const event = await next();
  expect(event).toHaveProperty('loaded');
  if (!('loaded' in event)) return;
  expect(event.loaded.domains).toBe(names.length);
  for (const name of names) expect(event.loaded.table.hasDomain(name)).toBe(true);
}

/** Waits longer than a load takes that nobody should have begun. */
async function expectSilence(): Promise<void> {
  await new Promise((resolve) => setTimeout(resolve, 400));
  expect(events).toEqual([]);
}

/** Every event until now was handed to the watches: inotify keeps their order. */
async function eventsHandedOver(): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  const watcher = watch(root, () => resolve());
  writeFileSync(join(root, 'marker'), '');
  await promise;
  watcher.close();
}

function write(path: string, text: string): void {
  mkdirSync(dirname(join(root, path)), { recursive: true });
  writeFileSync(join(root, path), text);
}

function relink(target: string, path: string): void {
  symlinkSync(target, join(root, `${path}_tmp`));
  renameSync(join(root, `${path}_tmp`), join(root, path));
}

function domain(name: string): string {
  return `domain: ${name}\ndescriptors:\n  - key: k\n    rate_limit: {unit: minute, requests_per_unit: 5}\n`;
}

describe('FileConfigSource', () => {
  it('loads what is there at the start', async () => {
    write('config/a.yaml', domain('a'));
    write('config/b.yml', domain('b'));
    await start();
    const event = await next();
    expect(event).toMatchObject({ loaded: { domains: 2, rules: 2, sources: 2 } });
    if ('loaded' in event) {
      expect(event.loaded.loadMs).toBeGreaterThan(0);
      expect(event.loaded.table.match('a', [{ key: 'k', value: 'v' }])?.rule.limits[0]?.requestsPerUnit).toBe(
        5,
      );
    }
  });

  it('loads an empty directory as no rules', async () => {
    mkdirSync(join(root, 'config'));
    await start();
    expect(await next()).toMatchObject({ loaded: { domains: 0, rules: 0, sources: 0 } });
  });

  it('loads again when a file changes', async () => {
    write('config/a.yaml', domain('a'));
    await start();
    await nextDomains('a');
    write('config/b.yaml', domain('b'));
    await nextDomains('a', 'b');
    unlinkSync(join(root, 'config/a.yaml'));
    await nextDomains('b');
    await expectSilence();
  });

  it('makes one load of a burst', async () => {
    write('config/a.yaml', domain('a'));
    await start();
    await nextDomains('a');
    for (let index = 0; index < 200; index += 1) write(`config/b${index}.yaml`, domain(`b${index}`));
    truncateSync(join(root, 'config/a.yaml'));
    write('config/a.yaml', domain('a'));
    expect(await next()).toMatchObject({ loaded: { domains: 201 } });
    await expectSilence();
  });

  it('waits for a pause of 50 ms in a burst, with time standing still', async () => {
    write('config/a.yaml', domain('a'));
    const timers = new ManualTimers();
    await start({ timers, clock: { nowMs: () => timers.nowMs, monotonicMs: () => timers.nowMs } });
    await nextDomains('a');
    for (const name of ['b', 'c', 'd']) {
      write(`config/${name}.yaml`, domain(name));
      await eventsHandedOver();
      timers.advance(49);
    }
    timers.advance(1);
    await nextDomains('a', 'b', 'c', 'd');
    // With the review over only the check of the path is still set: no load was begun earlier, so none is due after this one.
    await eventually(() => expect(timers.size).toBe(1));
  });

  it('makes exactly one more load of changes during a load', async () => {
    write('config/a.yaml', domain('a'));
    await start({ limits: { quietMs: 0 } });
    for (const name of ['b', 'c', 'd']) write(`config/${name}.yaml`, domain(name));
    await next();
    await nextDomains('a', 'b', 'c', 'd');
    await expectSilence();
  });

  it('continues after a broken load, whose errors it reports all', async () => {
    write('config/a.yaml', domain('a'));
    await start();
    await nextDomains('a');
    write('config/b.yaml', 'domain: b\ndescriptors:\n  - value: v\n  - key: ""\n');
    write('config/c.yaml', 'domain: ""\n');
    expect(await next()).toEqual({
      failed: [
        'b.yaml:3:5: descriptor has empty key',
        'b.yaml:4:10: descriptor has empty key',
        'c.yaml:1:9: config file cannot have empty domain',
      ],
      total: 3,
    });
    write('config/b.yaml', domain('b'));
    unlinkSync(join(root, 'config/c.yaml'));
    await nextDomains('a', 'b');
  });

  it('merges files of one domain only when asked to', async () => {
    write('config/a.yaml', domain('a'));
    write('config/b.yaml', domain('a').replace('key: k', 'key: l'));
    await start({ checks: { mergeDomains: true } });
    await nextDomains('a');
    await source?.close();
    await start();
    expect(await next()).toEqual({
      failed: ["b.yaml:1:9: duplicate domain 'a' in config file"],
      total: 1,
    });
  });

  it('rejects what the store cannot count, by rule and place', async () => {
    const sliding = '{window: 5m, requests_per_unit: 1, algorithm: sliding_window}';
    write('config/a.yaml', domain('a'));
    write('config/b.yaml', `domain: b\ndescriptors:\n  - key: k\n    value: v\n    rate_limit: ${sliding}\n`);
    const support = { admission: 'this store cannot', groups: undefined, calendarMonths: false };
    await start({ checks: { mergeDomains: false, support } });
    const refusal = "algorithm sliding_window of 'b.k_v' cannot be counted: this store cannot";
    expect(await next()).toEqual({ failed: [`b.yaml:5:63: ${refusal}`], total: 1 });
  });

  it('rejects more bytes than the bound and names it', async () => {
    write('config/a.yaml', domain('a'));
    write('config/b.yaml', domain('b'));
    await start({ limits: { maxBytes: 100 } });
    expect(await next()).toEqual({
      failed: ['b.yaml: the rule files up to this one hold 174 bytes, the bound is 100'],
      total: 1,
    });
  });

  it('says what it skipped', async () => {
    write('config/a.yaml', domain('a'));
    write('more/b.yaml', domain('b'));
    write('config/b.yaml.old', domain('b'));
    write('config/notes.txt', 'of no domain\n');
    symlinkSync('../more', join(root, 'config/more'));
    await start();
    await nextDomains('a');
    await eventually(() => expect(warnings).not.toEqual([]));
    expect(warnings[0]).toEqual([
      'more: symbolic link to a directory, skipped',
      'b.yaml.old: has rules but is not read: only *.yaml and *.yml are rule files',
    ]);
  });

  it.each([false, true])('follows a ConfigMap mount with ignoreDotFiles=%s', async (ignoreDotFiles) => {
    write('config/..2026_1/rules.yaml', domain('one'));
    symlinkSync('..2026_1', join(root, 'config/..data'));
    symlinkSync('..data/rules.yaml', join(root, 'config/rules.yaml'));
    await start({ paths: { ignoreDotFiles } });
    await nextDomains('one');

    write('config/..2026_2/rules.yaml', domain('two'));
    const old = readlinkSync(join(root, 'config/..data'));
    relink('..2026_2', 'config/..data');
    rmSync(join(root, 'config', old), { recursive: true });
    await nextDomains('two');
    await expectSilence();
  });

  it('follows a ConfigMap whose ..data is the root', async () => {
    write('..2026_1/config/rules.yaml', domain('one'));
    symlinkSync('..2026_1', join(root, '..data'));
    await start({ paths: { root: join(root, '..data'), watchRoot: true } });
    await nextDomains('one');
    write('..2026_2/config/rules.yaml', domain('two'));
    relink('..2026_2', '..data');
    await nextDomains('two');
  });

  it('loads again when the watched root is replaced, not when it is edited', async () => {
    write('v1/rl/config/a.yaml', domain('a'));
    write('v2/rl/config/b.yaml', domain('b'));
    symlinkSync('v1', join(root, 'current'));
    await start({ paths: { root: join(root, 'current'), subdirectory: 'rl', watchRoot: true } });
    await nextDomains('a');
    write('v1/rl/config/c.yaml', domain('c'));
    unlinkSync(join(root, 'current'));
    await expectSilence();
    relink('v2', 'current');
    await nextDomains('b');
  });

  it('keeps the rules while the app directory is missing, and follows its successor', async () => {
    write('config/a.yaml', domain('a'));
    await start();
    await nextDomains('a');
    renameSync(join(root, 'config'), join(root, 'gone'));
    const reason = `unable to watch file (${join(root, 'config')}): no such file or directory`;
    expect(await next()).toEqual({ reach: reason });
    write('config.new/b.yaml', domain('b'));
    renameSync(join(root, 'config.new'), join(root, 'config'));
    expect(await next()).toEqual({ reach: 'reachable' });
    await nextDomains('b');
    write('config/c.yaml', domain('c'));
    await nextDomains('b', 'c');
  });

  it('has no rules while the root is missing, and loads when it appears', async () => {
    await start({ paths: { root: join(root, 'current'), watchRoot: true } });
    const event = await next();
    expect(event).toMatchObject({ loaded: { domains: 0 } });
    await eventually(() => expect(warnings).not.toEqual([]));
    expect(warnings[0]).toEqual([`${join(root, 'current')}: no such file or directory`]);
    write('v1/config/a.yaml', domain('a'));
    relink('v1', 'current');
    await nextDomains('a');
  });

  it('reports counters that could meet after the rules, which it does not keep waiting', async () => {
    const limit = 'rate_limit: {unit: day, requests_per_unit: 1}';
    const values = Array.from(
      { length: 20_000 },
      (_, i) => `  - {key: k, value: v${i}, descriptors: [{key: l, ${limit}}]}\n`,
    );
    write('config/a.yaml', `domain: a\ndescriptors:\n  - {key: k, ${limit}}\n${values.join('')}`);
    await start({ counterKeys: 'compatible' });
    await nextDomains('a');
    expect(collisions).toEqual([]);
    await eventually(() => expect(collisions).toEqual(['20000']));
    write('config/b.yaml', domain('b'));
    await nextDomains('a', 'b');
    // While somebody still looks.
    write('config/b.yaml', domain('c'));
    await nextDomains('a', 'c');
    await eventually(() => expect(collisions.length).toBeGreaterThan(1));
    expect(new Set(collisions)).toEqual(new Set(['20000']));
  });

  it('does not start if nothing can be watched', async () => {
    await expect(start()).rejects.toThrow(ConfigSourceError);
    await expect(start()).rejects.toThrow(
      `unable to watch file (${join(root, 'config')}): no such file or directory`,
    );
  });

  it('reports nothing after close, not even of a load under way', async () => {
    write('config/a.yaml', domain('a'));
    await start();
    await source?.close();
    write('config/b.yaml', domain('b'));
    await expectSilence();
  });
});
