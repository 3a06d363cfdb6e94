import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeEach, describe, expect, it } from 'vitest';
import { systemTimers } from '../../../process/time/clock.ts';
import { RuleTable } from '../../../rules/table/rule-table.ts';
import { ManualTimers } from '../../../test/support/manual-timers.ts';
import { temporaryFolder } from '../../../test/support/temporary-folder.ts';
import { fileLayout } from './change-watch.ts';
import { startLoadThread } from './file-source.ts';
import type { FileLayout } from './list-files.ts';

const limits = { maxHeapMiB: 512, timeoutMs: 60_000, reviewTimeoutMs: 60_000, timers: systemTimers };
const maxBytes = 1 << 26;
const review = { counterKeys: 'unambiguous' as const, sanitizeDescriptorMetricDots: false };

let root: string;
let layout: FileLayout;
beforeEach(() => {
  root = temporaryFolder();
  mkdirSync(join(root, 'config'));
  layout = fileLayout({
    root,
    subdirectory: '',
    appDirectory: 'config',
    ignoreDotFiles: false,
    watchRoot: false,
  });
});

function problem(text: string) {
  const error = {
    code: 'unreadable',
    source: join(root, 'config'),
    text,
    path: [],
    line: undefined,
    column: undefined,
  };
  return { ok: false, errors: [error], total: 1 };
}

describe('startLoadThread', () => {
  it('hands over the bytes of a rule table', async () => {
    writeFileSync(join(root, 'config/a.yaml'), 'domain: a\ndescriptors:\n  - key: k\n');
    const outcome = await startLoadThread({ layout, mergeDomains: false, ...review, maxBytes }, limits)
      .outcome;
    expect(outcome).toMatchObject({ ok: true, sources: 1 });
    expect(outcome.ok && new RuleTable(outcome.bytes).hasDomain('a')).toBe(true);
  });

  it('reviews the rules when it has handed them over, for counters that could meet with compatible keys', async () => {
    const level = '  - key: a\n    rate_limit: {unit: day, requests_per_unit: 1}\n';
    const idle = '  - key: idle.one\n---\ndomain: e\n';
    const levels = `${level}${level.replace('a', 'a_b')}${idle}`;
    writeFileSync(join(root, 'config/a.yaml'), `domain: d\ndescriptors:\n${levels}`);
    const request = { layout, mergeDomains: false, maxBytes };
    const compatible = startLoadThread({ ...request, ...review, counterKeys: 'compatible' }, limits);
    const order: string[] = [];
    void compatible.outcome.then(() => order.push('rules'));
    void compatible.review.then(() => order.push('review'));
    expect(await compatible.outcome).toMatchObject({ ok: true });
    const warnings = [
      {
        source: 'a.yaml',
        line: 8,
        rule: undefined,
        text: expect.stringContaining('only the first document'),
      },
      { source: 'a.yaml', line: 7, rule: 'idle.one', text: expect.stringContaining('has no limit') },
    ];
    expect(await compatible.review).toMatchObject({
      warnings,
      total: 2,
      collisions: {
        count: '1',
        first:
          'a.yaml:5:10: rule a_b of domain d counts as d_a_b_*_, which can be a key of rule a of domain d as well (line 3)',
      },
    });
    expect(order).toEqual(['rules', 'review']);
    const unambiguous = startLoadThread({ ...request, ...review }, limits);
    expect(await unambiguous.review).toMatchObject({ warnings, total: 2, collisions: undefined });
  });

  it('says why it could not review the rules, which are in force all the same', async () => {
    const timers = new ManualTimers();
    // Each pattern is compared with all those before it.
    const levels = Array.from({ length: 3_000 }, (_, n) => `  - {key: k, value: "*v${n}"}\n`);
    writeFileSync(join(root, 'config/a.yaml'), `domain: d\ndescriptors:\n${levels.join('')}`);
    const slow = startLoadThread({ layout, mergeDomains: false, maxBytes, ...review }, { ...limits, timers });
    expect(await slow.outcome).toMatchObject({ ok: true });
    timers.advance(limits.reviewTimeoutMs);
    expect(await slow.review).toEqual({ problem: 'it took longer than 60000 ms' });
    const stopped = startLoadThread({ layout, mergeDomains: false, maxBytes, ...review }, limits);
    expect(await stopped.outcome).toMatchObject({ ok: true });
    stopped.stop();
    expect(await stopped.review).toBeUndefined();
  });

  it('fails when there is no thread to be had', async () => {
    // What cannot be handed over makes the thread fail to begin, as a bound on threads does.
    const request = {
      layout,
      mergeDomains: false,
      ...review,
      maxBytes,
      unsendable: () => {},
    };
    const { outcome, stop } = startLoadThread(request, limits);
    stop();
    expect(await outcome).toEqual(problem('the load failed: () => {} could not be cloned.'));
  });

  it('fails when the thread throws', async () => {
    const request = {
      layout: { ...layout, readDirectory: null as never },
      mergeDomains: false,
      ...review,
      maxBytes,
    };
    const outcome = await startLoadThread(request, limits).outcome;
    expect(outcome.ok ? undefined : outcome.errors[0]?.text).toMatch(/^the load failed: The "path" argument/);
  });

  it('fails when the thread runs out of memory', async () => {
    const rule = '  - key: some_key_of_a_rule\n    value: v';
    const rules = Array.from({ length: 100_000 }, (_, index) => `${rule}${index}\n`);
    writeFileSync(join(root, 'config/a.yaml'), `domain: a\ndescriptors:\n${rules.join('')}`);
    const request = { layout, mergeDomains: false, ...review, maxBytes };
    const outcome = await startLoadThread(request, { ...limits, maxHeapMiB: 12 }).outcome;
    expect(outcome).toEqual(problem('the rules need more memory to load than the bound of 12 MiB'));
  });

  it('fails when the load takes too long', async () => {
    const timers = new ManualTimers();
    const thread = startLoadThread(
      { layout, mergeDomains: false, ...review, maxBytes },
      { ...limits, timers },
    );
    timers.advance(limits.timeoutMs);
    expect(await thread.outcome).toEqual(problem('the load took longer than 60000 ms'));
  });

  it('fails when it is stopped', async () => {
    const timers = new ManualTimers();
    const thread = startLoadThread(
      { layout, mergeDomains: false, ...review, maxBytes },
      { ...limits, timers },
    );
    thread.stop();
    expect(await thread.outcome).toEqual(problem('the load ended without a result'));
    expect(timers.size).toBe(0);
  });
});
