import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeEach, describe, expect, it } from 'vitest';
import { systemTimers } from '../../../process/timers.ts';
import { RuleTable } from '../../../rules/table/rule-table.ts';
import { ManualTimers } from '../../../test/support/manual-timers.ts';
import { temporaryFolder } from '../../../test/support/temporary-folder.ts';
import type { FileLayout } from './file-layout.ts';
import { fileLayout } from './file-layout.ts';
import { startLoadThread } from './load-thread.ts';

const limits = { maxHeapMiB: 512, timeoutMs: 60_000, timers: systemTimers };
const maxBytes = 1 << 26;

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
    const outcome = await startLoadThread(
      { layout, mergeDomains: false, counterKeys: 'unambiguous' as const, maxBytes },
      limits,
    ).outcome;
    expect(outcome).toMatchObject({ ok: true, sources: 1, warnings: [] });
    expect(outcome.ok && new RuleTable(outcome.bytes).hasDomain('a')).toBe(true);
  });

  it('looks for counters that could meet when it has handed over the rules, with compatible keys', async () => {
    const level = '  - key: a\n    rate_limit: {unit: day, requests_per_unit: 1}\n';
    writeFileSync(
      join(root, 'config/a.yaml'),
      `domain: d\ndescriptors:\n${level}${level.replace('a', 'a_b')}`,
    );
    const request = { layout, mergeDomains: false, maxBytes };
    const compatible = startLoadThread({ ...request, counterKeys: 'compatible' }, limits);
    const order: string[] = [];
    void compatible.outcome.then(() => order.push('rules'));
    void compatible.meetings.then(() => order.push('meetings'));
    expect(await compatible.outcome).toMatchObject({ ok: true });
    expect(await compatible.meetings).toEqual({ summary: { count: '1', first: 'd_a_*_ and d_a_b_*_' } });
    expect(order).toEqual(['rules', 'meetings']);
    const unambiguous = startLoadThread({ ...request, counterKeys: 'unambiguous' }, limits);
    expect(await unambiguous.outcome).toMatchObject({ ok: true });
    expect(await unambiguous.meetings).toBeUndefined();
  });

  it('fails when there is no thread to be had', async () => {
    // What cannot be handed over makes the thread fail to begin, as a bound on threads does.
    const request = {
      layout,
      mergeDomains: false,
      counterKeys: 'unambiguous' as const,
      maxBytes,
      unsendable: () => {},
    };
    const { outcome, stop } = startLoadThread(request, limits);
    stop();
    expect(await outcome).toEqual(problem('the load broke off: () => {} could not be cloned.'));
  });

  it('fails when the thread throws', async () => {
    const request = {
      layout: { ...layout, readDirectory: null as never },
      mergeDomains: false,
      counterKeys: 'unambiguous' as const,
      maxBytes,
    };
    const outcome = await startLoadThread(request, limits).outcome;
    expect(outcome.ok ? undefined : outcome.errors[0]?.text).toMatch(
      /^the load broke off: The "path" argument/,
    );
  });

  it('fails when the thread runs out of memory', async () => {
    const rule = '  - key: some_key_of_a_rule\n    value: v';
    const rules = Array.from({ length: 100_000 }, (_, index) => `${rule}${index}\n`);
    writeFileSync(join(root, 'config/a.yaml'), `domain: a\ndescriptors:\n${rules.join('')}`);
    const request = { layout, mergeDomains: false, counterKeys: 'unambiguous' as const, maxBytes };
    const outcome = await startLoadThread(request, { ...limits, maxHeapMiB: 12 }).outcome;
    expect(outcome).toEqual(problem('the rules need more memory to load than the bound of 12 MiB'));
  });

  it('fails when the load takes too long', async () => {
    const timers = new ManualTimers();
    const thread = startLoadThread(
      { layout, mergeDomains: false, counterKeys: 'unambiguous' as const, maxBytes },
      { ...limits, timers },
    );
    timers.advance(limits.timeoutMs);
    expect(await thread.outcome).toEqual(problem('the load took longer than 60000 ms'));
  });

  it('fails when it is stopped', async () => {
    const timers = new ManualTimers();
    const thread = startLoadThread(
      { layout, mergeDomains: false, counterKeys: 'unambiguous' as const, maxBytes },
      { ...limits, timers },
    );
    thread.stop();
    expect(await thread.outcome).toEqual(problem('the load ended without a result'));
    expect(timers.size).toBe(0);
  });
});
