import { execFileSync } from 'node:child_process';
import { mkdirSync, renameSync, rmSync, symlinkSync, unlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { systemClock, systemTimers } from '../../process/time/clock.ts';
import { recordedTelemetry, reportTo } from '../../test/support/control-plane-telemetry.ts';
import { eventually } from '../../test/support/eventually.ts';
import { temporaryFolder } from '../../test/support/temporary-folder.ts';
import { type ConfigStatus, UnreadSpec } from '../model/config-object.ts';
import { DirectorySource, DirectorySourceError } from './directory-source.ts';
import { readManifestFolder } from './manifest-folder.ts';

let folder: string;
let source: DirectorySource | undefined;
/** What was logged, and that a status was shown. */
let reported: string[];
let changes: number;

beforeEach(() => {
  folder = join(temporaryFolder(), 'manifests');
  mkdirSync(folder);
  reported = [];
  changes = 0;
});
afterEach(() => source?.close());

function manifest(name: string, domain = name, namespace?: string): string {
  const place = namespace === undefined ? '' : `, namespace: ${namespace}`;
  return `apiVersion: ratelimit.weir.dev/v1alpha1
kind: RateLimitConfig
metadata: { name: ${name}${place} }
spec: { domain: ${domain} }
`;
}

const write = (file: string, ...manifests: string[]) =>
  writeFileSync(join(folder, file), manifests.join('---\n'));

async function start(limits: { maxBytes?: number } = {}, className = 'weir'): Promise<DirectorySource> {
  source = new DirectorySource({
    ...recordedTelemetry(reportTo(reported)),
    folder,
    className,
    clock: systemClock,
    timers: systemTimers,
    limits: { quietMs: 5, checkIntervalMs: 10, ...limits },
  });
  await source.start({
    changed: () => changes++,
    cutOff: () => {},
  });
  return source;
}

const listed = (count: number) => `Read the first complete list of RateLimitConfigs: ${count}`;
const remedy = 'put its rules into that file, or change its domain (of a manifest: its name)';
const lost = 'Cannot watch RateLimitConfigs: objects that are known are still served: ';

/** `namespace/name: domain, generation`, by name. */
function objects(): string[] {
  return [...(source?.objects.values() ?? [])]
    .map(({ namespace, name, generation, spec }) => {
      const text =
        spec instanceof UnreadSpec ? `unread ${spec.problem}` : (spec as { domain: string }).domain;
      return `${namespace}/${name}: ${text}, ${generation}`;
    })
    .sort();
}

const objectsAre = (...expected: string[]) =>
  eventually(() => expect(objects()).toEqual(expected), { intervalMs: 5 });
const reportedIs = (...expected: string[]) =>
  eventually(() => expect(reported.slice(1)).toEqual(expected), { intervalMs: 5 });
const uidOf = (name: string) =>
  [...(source?.objects.values() ?? [])].find((object) => object.name === name)?.uid;

describe('DirectorySource', () => {
  it.each([
    ['descriptors:\n- key: a\n', false],
    ['"descriptors" :\n- key: a\n', false],
    ["'descriptors':\n- key: a\n", false],
    ['other: {}\n', true],
    ['list:\n  descriptors:\n  - key: a\n', true],
  ])('takes a file with the text %j for foreign: %s', async (text, isForeign) => {
    write('good.yaml', manifest('one'));
    await start();
    writeFileSync(join(folder, 'file.yaml'), text);
    await eventually(() => expect(reported).toHaveLength(2), { intervalMs: 5 });
    expect(reported[1]).toMatch(/^file\.yaml/);
    expect(/is neither a rule file/.test(reported[1]!)).toBe(isForeign);
    expect(/correct the file: none of its rules are in force/.test(reported[1]!)).toBe(!isForeign);
  });

  it('reads all manifests before it is listed', async () => {
    write('a.yaml', manifest('one'), manifest('two', 'second', 'team'));
    write('b.yml', manifest('three'));
    write(
      'c.json',
      JSON.stringify({
        apiVersion: 'ratelimit.weir.dev/v1alpha1',
        kind: 'RateLimitConfig',
        metadata: { name: 'four' },
        spec: { domain: 'fourth' },
      }),
    );
    write('notes.txt', 'not a manifest');
    write('.hidden.yaml', manifest('hidden'));
    write('other.yaml', 'apiVersion: v1\nkind: Namespace\nmetadata: { name: team }\n');
    mkdirSync(join(folder, 'folder.yaml'));
    await start();
    expect(reported).toEqual([listed(4)]);
    expect(objects()).toEqual([
      'default/four: fourth, 1',
      'default/one: one, 1',
      'default/three: three, 1',
      'team/two: second, 1',
    ]);
    expect([...(source?.objects.values() ?? [])][0]).toMatchObject({ createdMs: 0, status: undefined });
  });

  it('reads rule files, each as an object of its domain, and passes over their tests', async () => {
    const rules = (domain: string, requests: number) =>
      `domain: ${domain}\ndescriptors:\n  - key: path\n    rate_limit: { unit: minute, requests_per_unit: ${requests} }\n`;
    write('a.yaml', rules('Shop_EU', 5));
    write('b.yaml', manifest('two'));
    write('shop.test.yaml', 'domain: Shop_EU\nsteps:\n  - path=/ -> OK\n');
    await start();
    expect(reported).toEqual([listed(2)]);
    expect(objects()).toEqual(['default/shop-eu: Shop_EU, 1', 'default/two: two, 1']);
    const { spec } = [...source!.objects.values()].find(({ name }) => name === 'shop-eu')!;
    const rateLimit = { unit: 'minute', requestsPerUnit: 5 };
    expect(spec).toEqual({ domain: 'Shop_EU', descriptors: [{ key: 'path', rateLimit }] });
    write('a.yaml', rules('Shop_EU', 7));
    await objectsAre('default/shop-eu: Shop_EU, 2', 'default/two: two, 1');
    write('a.yaml', rules('Shop_EU', -1));
    write('c.yaml', 'replicas: 3\n');
    write('d.yaml', rules('shop_EU', 9));
    write('e.yaml', rules('more', -1));
    const wrong = /^.\.yaml:4:\d+: .*cannot unmarshal/;
    await reportedIs(
      ...[
        expect.stringMatching(
          new RegExp(`${wrong.source}.*; correct the file: its last accepted rules stay in force`),
        ),
        expect.stringMatching(
          /^c\.yaml: is neither a rule file .* nor a manifest .* move it out of the folder$/,
        ),
        expect.stringMatching(
          new RegExp(`${wrong.source}.*; correct the file: none of its rules are in force`),
        ),
        `d.yaml:1: default/shop-eu is already defined at a.yaml:1; this file is ignored: ${remedy}`,
      ],
    );
    await objectsAre(
      expect.stringMatching(/^default\/e\.yaml: unread e\.yaml:4:\d+: /),
      expect.stringMatching(/^default\/shop-eu: unread a\.yaml:4:\d+: .*, 3$/),
      'default/two: two, 1',
    );
    reported.length = 0;
    write('a.yaml', rules('Shop_EU', 7));
    write('e.yaml', rules('more', 1));
    await objectsAre('default/more: more, 1', 'default/shop-eu: Shop_EU, 4', 'default/two: two, 1');
    expect(reported.sort()).toEqual(['a.yaml: its errors are corrected', 'e.yaml: its errors are corrected']);
  });

  it('takes rule files into its class', async () => {
    write('a.yaml', 'domain: shop\n');
    source = undefined;
    await start({}, 'edge');
    expect([...source!.objects.values()].map(({ spec }) => spec)).toEqual([
      { className: 'edge', domain: 'shop' },
    ]);
  });

  it('reads manifests of its class, and those whose class is no text', async () => {
    const ofClass = (name: string, text: string) =>
      `${manifest(name).replace('spec: {', `spec: { className: ${text},`)}`;
    write('a.yaml', manifest('one'), ofClass('two', 'edge'), ofClass('three', 'weir'), ofClass('four', '7'));
    await start();
    const seen = ['default/four: four, 1', 'default/one: one, 1', 'default/three: three, 1'];
    expect(objects()).toEqual(seen);
    write('b.yaml', ofClass('five', 'edge'));
    write('c.yaml', ofClass('six', 'weir'));
    await objectsAre(...[...seen, 'default/six: six, 1'].sort());
  });

  it('follows changes: a generation grows with the spec, other values stay', async () => {
    write('a.yaml', manifest('one'));
    write('b.yaml', manifest('two'));
    await start();
    const [uid, two] = [uidOf('one'), [...(source?.objects.values() ?? [])][1]];
    write('a.yaml', manifest('one', 'changed'));
    await objectsAre('default/one: changed, 2', 'default/two: two, 1');
    expect(uidOf('one')).toBe(uid);
    expect([...(source?.objects.values() ?? [])][1]).toBe(two);
    expect(changes).toBeGreaterThan(1);
  });

  it('gives an object that comes back another uid, and the same ones at each start', async () => {
    write('a.yaml', manifest('one'));
    await start();
    const uid = uidOf('one');
    unlinkSync(join(folder, 'a.yaml'));
    await objectsAre();
    write('b.yaml', manifest('one'));
    await objectsAre('default/one: one, 1');
    expect(uidOf('one')).not.toBe(uid);
    await source?.close();
    await start();
    expect(uidOf('one')).toBe(uid);
  });

  it('keeps what a file said that cannot be parsed any more, and says where it is wrong, once', async () => {
    write('a.yaml', manifest('one'));
    write('b.yaml', manifest('two'));
    await start();
    write('a.yaml', 'spec: [');
    write('b.yaml', manifest('two', 'changed'));
    const unread = expect.stringMatching(/^default\/one: unread a\.yaml:1:\d+: .*, 2$/);
    await objectsAre(unread, 'default/two: changed, 2');
    await eventually(() => expect(reported.length).toBe(2));
    expect(reported[1]).toMatch(/^a\.yaml:1:\d+: /);
    write('b.yaml', manifest('two', 'again'));
    await objectsAre(unread, 'default/two: again, 3');
    write('a.yaml', manifest('one', 'repaired'));
    await objectsAre('default/one: repaired, 3', 'default/two: again, 3');
    expect(reported.slice(2)).toEqual(['a.yaml: its errors are corrected']);
  });

  it('takes what can be read of a file with a bad document', async () => {
    write('a.yaml', manifest('one'), manifest('two'));
    await start();
    write('a.yaml', manifest('one', 'changed'), 'kind: RateLimitConfig\n', manifest('three'));
    const unread = 'default/two: unread a.yaml:6:1: apiVersion: is required, 2';
    await objectsAre('default/one: changed, 2', 'default/three: three, 1', unread);
    await reportedIs('a.yaml:6:1: apiVersion: is required');
  });

  it('takes the first of two manifests of one object, and reports the other once', async () => {
    write('b.yaml', manifest('one', 'of-b'));
    write('a.yaml', manifest('one', 'of-a'), manifest('two'), manifest('two', 'again'));
    await start();
    expect(objects()).toEqual(['default/one: of-a, 1', 'default/two: two, 1']);
    expect(reported).toEqual([
      `a.yaml:11: default/two is already defined at a.yaml:6; this file is ignored: ${remedy}`,
      `b.yaml:1: default/one is already defined at a.yaml:1; this file is ignored: ${remedy}`,
      listed(2),
    ]);
    reported.length = 0;
    write('c.yaml', manifest('three'));
    await objectsAre('default/one: of-a, 1', 'default/three: three, 1', 'default/two: two, 1');
    unlinkSync(join(folder, 'a.yaml'));
    await objectsAre('default/one: of-b, 2', 'default/three: three, 1');
    expect(reported).toEqual([]);
  });

  it('follows the swap of a Kubernetes volume', async () => {
    const version = (name: string, domain: string) => {
      mkdirSync(join(folder, name));
      writeFileSync(join(folder, name, 'a.yaml'), manifest('one', domain));
    };
    version('..1', 'old');
    symlinkSync('..1', join(folder, '..data'));
    symlinkSync('..data/a.yaml', join(folder, 'a.yaml'));
    await start();
    expect(objects()).toEqual(['default/one: old, 1']);
    version('..2', 'new');
    symlinkSync('..2', join(folder, '..data_tmp'));
    renameSync(join(folder, '..data_tmp'), join(folder, '..data'));
    rmSync(join(folder, '..1'), { recursive: true });
    await objectsAre('default/one: new, 2');
    expect(reported).toEqual([listed(1)]);
  });

  it('reads one version of a volume that is swapped meanwhile', async () => {
    const names = Array.from({ length: 40 }, (_, index) => `f${index}.yaml`);
    for (const version of ['..1', '..2']) {
      mkdirSync(join(folder, version));
      for (const name of names) writeFileSync(join(folder, version, name), version);
    }
    for (const name of names) symlinkSync(`..data/${name}`, join(folder, name));
    const swap = (version: string) => {
      symlinkSync(version, join(folder, '..data_tmp'));
      renameSync(join(folder, '..data_tmp'), join(folder, '..data'));
    };
    // At the beginning of a reading, later, and after it.
    for (let turns = 1; turns < 5_000; turns = Math.ceil(turns * 1.5)) {
      swap('..1');
      const reading = readManifestFolder(folder, 1_000_000);
      for (let turn = 0; turn < turns; turn += 1) await nextTurn();
      swap('..2');
      const texts = (await reading).map((file) => ('text' in file ? file.text : file.unreadable));
      expect([texts.length, new Set(texts).size]).toEqual([40, 1]);
    }
  });

  it('keeps everything while the folder is gone, and continues with its successor', async () => {
    write('a.yaml', manifest('one'));
    await start();
    renameSync(folder, `${folder}.old`);
    await eventually(() => expect(reported.some((line) => line.startsWith(lost))).toBe(true));
    expect(reported.at(1)).toBe(`${lost}unable to watch file (${folder}): no such file or directory`);
    expect(objects()).toEqual(['default/one: one, 1']);
    mkdirSync(folder);
    write('a.yaml', manifest('one', 'back'));
    await objectsAre('default/one: back, 2');
    expect(reported).toContain('Watching RateLimitConfigs again');
  });

  it('keeps what files said that cannot be read', async () => {
    write('a.yaml', manifest('one'));
    write('b.yaml', manifest('two'));
    await start({ maxBytes: 400 });
    rmSync(join(folder, 'a.yaml'));
    symlinkSync('nowhere', join(folder, 'a.yaml'));
    write('b.yaml', `${manifest('two', 'changed')}#${'x'.repeat(400)}`);
    await reportedIs(
      'a.yaml: it is a symbolic link to no file',
      'b.yaml: the manifests up to this one have more than 400 bytes',
    );
    expect(objects()).toEqual([
      'default/one: unread a.yaml: it is a symbolic link to no file, 2',
      'default/two: unread b.yaml: the manifests up to this one have more than 400 bytes, 2',
    ]);
  });

  it('passes over a pipe instead of waiting for its writer', async () => {
    execFileSync('mkfifo', [join(folder, 'a.yaml')]);
    await start();
    expect(reported).toEqual(['a.yaml: not a regular file', listed(1)]);
    expect(objects()).toEqual(['default/a.yaml: unread a.yaml: not a regular file, 1']);
  });

  it('gives statuses back while their object is there', async () => {
    write('a.yaml', manifest('one'));
    await start();
    const uid = uidOf('one') as string;
    const status: ConfigStatus = { observedGeneration: 1, conditions: [] };
    source?.setStatus(uid, status);
    source?.setStatus(uid, { ...status });
    source?.setStatus('other', status);
    expect([reported, changes]).toEqual([[listed(1)], 2]);
    expect([...(source?.objects.values() ?? [])][0]).toMatchObject({ generation: 1, status });
    write('a.yaml', manifest('one', 'changed'));
    await objectsAre('default/one: changed, 2');
    expect([...(source?.objects.values() ?? [])][0]?.status).toEqual(status);
  });

  it('does not mention a change that changes nothing', async () => {
    write('a.yaml', manifest('one'));
    await start();
    write('a.yaml', `# A comment.\n${manifest('one')}`);
    write('bad.yaml', 'kind: RateLimitConfig\n');
    await reportedIs('bad.yaml:1:1: apiVersion: is required');
    await objectsAre(
      'default/bad.yaml: unread bad.yaml:1:1: apiVersion: is required, 1',
      'default/one: one, 1',
    );
    const before = changes;
    write('bad.yaml', 'kind: RateLimitConfig\n# A comment.\n');
    write('c.yaml', '# Nothing.\n');
    await eventually(() => expect(reported.length).toBe(3));
    expect(changes).toBe(before);
  });

  it('rejects a folder that is not there, and a file', async () => {
    const file = join(folder, 'a.yaml');
    write('a.yaml', manifest('one'));
    folder = file;
    await expect(start()).rejects.toThrow(
      new DirectorySourceError(`the folder of manifests ${file}: not a directory`),
    );
    folder = join(file, '..', 'missing');
    await expect(start()).rejects.toThrow(
      new DirectorySourceError(`the folder of manifests ${folder}: no such file or directory`),
    );
  });
});
