import {
  appendFileSync,
  chmodSync,
  mkdirSync,
  renameSync,
  rmSync,
  symlinkSync,
  unlinkSync,
  watch,
  writeFileSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { eventually } from '../../../test/support/eventually.ts';
import { ManualTimers } from '../../../test/support/manual-timers.ts';
import { temporaryFolder } from '../../../test/support/temporary-folder.ts';
import { ConfigSourceError } from '../config-source.ts';
import { ChangeWatch, fileLayout } from './change-watch.ts';

const checkIntervalMs = 1000;

let base: string;
let changeWatch: ChangeWatch | undefined;
let timers: ManualTimers;
/** What the listener was reported, in order: `changed <entry>`, `lost <reason>`, `found`. */
let reported: string[];

beforeEach(() => {
  base = temporaryFolder();
  timers = new ManualTimers();
  reported = [];
});
afterEach(() => changeWatch?.close());

function startWatch(root: string, watchRoot: boolean, ignoreDotFiles = false): void {
  const paths = {
    root: at(root),
    subdirectory: '',
    appDirectory: 'config',
    ignoreDotFiles,
    watchRoot,
  };
  const listener = {
    changed: (entry: string | undefined) => reported.push(`changed ${entry ?? '(any)'}`),
    lost: (reason: string) => reported.push(`lost ${reason}`),
    found: () => reported.push('found'),
  };
  changeWatch = new ChangeWatch(fileLayout(paths), listener, { timers, checkIntervalMs, maxFolders: 20 });
  changeWatch.start();
}

const at = (path: string) => join(base, path);
const reportedOf = (line: string) => eventually(() => expect(reported).toContain(line), { intervalMs: 2 });

function write(path: string): void {
  mkdirSync(dirname(at(path)), { recursive: true });
  writeFileSync(at(path), 'domain: d\n');
}

/** `ln -sfn` as it is done without a moment in which the link is missing. */
function relink(target: string, path: string): void {
  symlinkSync(target, at(`${path}.new`));
  renameSync(at(`${path}.new`), at(path));
}

/** Every event until now was handed to the watches: inotify keeps their order. */
async function eventsHandedOver(): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  const watcher = watch(base, (_kind, entry) => {
    if (entry === 'marker') resolve();
  });
  writeFileSync(at('marker'), '');
  await promise;
  watcher.close();
}

interface Step {
  name: string;
  act: () => void;
}

describe('ChangeWatch of the app directory', () => {
  beforeEach(() => {
    write('root/config/a.yaml');
    write('root/config/sub/b.yaml');
    write('outside/c.yaml');
    startWatch('root', false);
  });

  const triggers: (Step & { entry: string })[] = [
    { name: 'create', entry: 'c.yaml', act: () => write('root/config/c.yaml') },
    { name: 'write', entry: 'a.yaml', act: () => appendFileSync(at('root/config/a.yaml'), '#') },
    { name: 'truncation', entry: 'a.yaml', act: () => writeFileSync(at('root/config/a.yaml'), '') },
    { name: 'chmod', entry: 'a.yaml', act: () => chmodSync(at('root/config/a.yaml'), 0o600) },
    { name: 'remove', entry: 'a.yaml', act: () => unlinkSync(at('root/config/a.yaml')) },
    {
      name: 'move-in',
      entry: 'c.yaml',
      act: () => renameSync(at('outside/c.yaml'), at('root/config/c.yaml')),
    },
    {
      name: 'move over a file',
      entry: 'a.yaml',
      act: () => renameSync(at('outside/c.yaml'), at('root/config/a.yaml')),
    },
    {
      name: 'move out, which to inotify by way of Node is a remove',
      entry: 'a.yaml',
      act: () => renameSync(at('root/config/a.yaml'), at('outside/a.yaml')),
    },
    { name: 'symbolic link', entry: 'l.yaml', act: () => symlinkSync('a.yaml', at('root/config/l.yaml')) },
    { name: 'new subdirectory', entry: 'new', act: () => mkdirSync(at('root/config/new')) },
    { name: 'file in a subdirectory', entry: 'sub/c.yaml', act: () => write('root/config/sub/c.yaml') },
    {
      name: 'write in a subdirectory',
      entry: 'sub/b.yaml',
      act: () => appendFileSync(at('root/config/sub/b.yaml'), '#'),
    },
    { name: 'chmod of the directory itself', entry: '(any)', act: () => chmodSync(at('root/config'), 0o700) },
  ];
  it.each(triggers)('reports a $name', async ({ act, entry }) => {
    act();
    await reportedOf(`changed ${entry}`);
  });

  const nonTriggers: Step[] = [
    { name: 'a file beside the directory', act: () => write('root/config.yaml') },
    { name: 'nothing', act: () => undefined },
  ];
  it.each(nonTriggers)('is silent at $name', async ({ act }) => {
    act();
    await eventsHandedOver();
    expect(reported).toEqual([]);
    mkdirSync(at('root/config/sentinel'));
    await reportedOf('changed sentinel');
    expect(reported).toEqual(['changed sentinel']);
  });

  it('reports the swap of a ConfigMap', async () => {
    write('root/config/..2026_2/a.yaml');
    relink('..2026_2', 'root/config/..data');
    await reportedOf('changed ..data');
  });

  it('continues after the directory was removed and made again', async () => {
    rmSync(at('root/config'), { recursive: true });
    const reason = `unable to watch file (${at('root/config')}): no such file or directory`;
    await reportedOf(`lost ${reason}`);
    for (const line of reported.filter((line) => line.startsWith('lost')))
      expect(line).toBe(`lost ${reason}`);

    timers.advance(checkIntervalMs);
    mkdirSync(at('root/config'));
    reported = [];
    await eventually(() => {
      timers.advance(checkIntervalMs);
      expect(reported).toEqual(['found', 'changed (any)']);
    });
    write('root/config/new.yaml');
    await reportedOf('changed new.yaml');
  });

  it('follows the path when another directory takes the place', async () => {
    mkdirSync(at('next'));
    renameSync(at('root/config'), at('previous'));
    renameSync(at('next'), at('root/config'));
    await reportedOf('changed (any)');
    reported = [];
    write('previous/old.yaml');
    write('root/config/new.yaml');
    await reportedOf('changed new.yaml');
    expect(reported).not.toContain('changed old.yaml');
  });

  it('watches a new folder and those below it, with what came in the meantime', async () => {
    mkdirSync(at('outside/deep/deeper'), { recursive: true });
    renameSync(at('outside/deep'), at('root/config/deep'));
    await reportedOf('changed deep');
    write('root/config/deep/deeper/new.yaml');
    await reportedOf('changed deep/deeper/new.yaml');
    write('root/config/deep/deeper/still/further/new.yaml');
    await reportedOf('changed deep/deeper/still');
    write('root/config/deep/deeper/still/further/newer.yaml');
    await reportedOf('changed deep/deeper/still/further/newer.yaml');
  });

  it('leaves a folder that was moved away, and watches another one in its place', async () => {
    renameSync(at('root/config/sub'), at('outside/sub'));
    await reportedOf('changed sub');
    await eventsHandedOver();
    reported = [];
    write('outside/sub/old.yaml');
    await eventsHandedOver();
    expect(reported).toEqual([]);
    mkdirSync(at('root/config/sub'));
    await reportedOf('changed sub');
    write('root/config/sub/new.yaml');
    await reportedOf('changed sub/new.yaml');
  });

  it('reports more folders than may be watched, and continues when there is room', async () => {
    for (let i = 0; i < 20; i++) mkdirSync(at(`root/config/many${i}`));
    const reason = /^lost unable to watch file \(.*many\d+\): there are more than 20 folders$/;
    await eventually(() => expect(reported.filter((line) => reason.test(line)).length).toBeGreaterThan(0));
    rmSync(at('root/config/many0'), { recursive: true });
    await reportedOf('changed many0');
    reported = [];
    await eventually(() => {
      timers.advance(checkIntervalMs);
      expect(reported).toContain('found');
    });
    write('root/config/many19/a.yaml');
    await reportedOf('changed many19/a.yaml');
  });

  it('reports nothing after close', async () => {
    changeWatch?.close();
    write('root/config/c.yaml');
    await new Promise((resolve) => setTimeout(resolve, 50));
    expect(reported).toEqual([]);
    expect(timers.size).toBe(0);
  });
});

describe('ChangeWatch of the app directory behind a symbolic link', () => {
  it('follows the link when it is turned elsewhere', async () => {
    write('v1/config/a.yaml');
    write('v2/config/a.yaml');
    relink('v1', 'current');
    startWatch('current', false);
    relink('v2', 'current');
    await eventually(() => {
      timers.advance(checkIntervalMs);
      expect(reported).toEqual(['changed (any)']);
    });
    write('v2/config/b.yaml');
    await reportedOf('changed b.yaml');
  });

  it('watches the folders of where the link leads to now', async () => {
    write('v1/config/sub/a.yaml');
    write('v2/config/sub/a.yaml');
    relink('v1', 'current');
    startWatch('current', false);
    relink('v2', 'current');
    await eventually(() => {
      timers.advance(checkIntervalMs);
      expect(reported).toEqual(['changed (any)']);
    });
    write('v2/config/sub/b.yaml');
    await reportedOf('changed sub/b.yaml');
    write('v1/config/sub/b.yaml');
    await eventsHandedOver();
    expect(reported.filter((line) => line === 'changed (any)')).toHaveLength(1);
  });
});

describe('ChangeWatch of what is not read', () => {
  it('is silent about hidden folders if they are left out, and about copies in the mount of a ConfigMap', async () => {
    write('root/config/.git/a.yaml');
    write('root/config/..2026_1/a.yaml');
    symlinkSync('..2026_1', at('root/config/..data'));
    startWatch('root', false);
    write('root/config/..2026_1/b.yaml');
    await eventsHandedOver();
    expect(reported).toEqual([]);
    changeWatch?.close();
    startWatch('root', false, true);
    write('root/config/.git/b.yaml');
    await eventsHandedOver();
    expect(reported).toEqual([]);
  });
});

describe('ChangeWatch of the root', () => {
  beforeEach(() => {
    write('v1/config/a.yaml');
    write('v2/config/a.yaml');
    relink('v1', 'current');
    startWatch('current', true);
  });

  const triggers: Step[] = [
    { name: 'a link renamed over it', act: () => relink('v2', 'current') },
    { name: 'a link renamed over it that leads to the same place', act: () => relink('v1', 'current') },
    {
      name: 'a link removed and made again',
      act: () => {
        unlinkSync(at('current'));
        symlinkSync('v2', at('current'));
      },
    },
    {
      name: 'a directory in place of the link',
      act: () => {
        unlinkSync(at('current'));
        renameSync(at('v2'), at('current'));
      },
    },
  ];
  it.each(triggers)('reports $name', async ({ act }) => {
    act();
    await reportedOf('changed current');
  });

  const nonTriggers: Step[] = [
    { name: 'an edit inside', act: () => appendFileSync(at('v1/config/a.yaml'), '#') },
    { name: 'a new file inside', act: () => write('v1/config/b.yaml') },
    { name: 'a removed file inside', act: () => unlinkSync(at('v1/config/a.yaml')) },
    { name: 'its removal', act: () => unlinkSync(at('current')) },
    { name: 'its move elsewhere', act: () => renameSync(at('current'), at('old')) },
    { name: 'a neighbor', act: () => write('current2') },
    { name: 'nothing', act: () => undefined },
  ];
  it.each(nonTriggers)('is silent at $name', async ({ act }) => {
    act();
    await eventsHandedOver();
    expect(reported).toEqual([]);
    relink('v2', 'current');
    await reportedOf('changed current');
    expect(reported).toEqual(['changed current']);
  });

  it('continues after the parent was exchanged', async () => {
    changeWatch?.close();
    for (const parent of ['p1', 'p2']) {
      mkdirSync(at(parent));
      symlinkSync('../v1', at(`${parent}/current`));
    }
    relink('p1', 'parent');
    startWatch('parent/current', true);
    relink('p2', 'parent');
    await eventually(() => {
      timers.advance(checkIntervalMs);
      expect(reported).toEqual(['changed (any)']);
    });
    relink('../v2', 'p2/current');
    await reportedOf('changed current');
  });
});

describe('ChangeWatch of a root that is a directory', () => {
  beforeEach(() => {
    write('current/config/a.yaml');
    startWatch('current', true);
  });

  it.each<Step>([
    { name: 'its change of mode', act: () => chmodSync(at('current'), 0o700) },
    { name: 'an edit inside', act: () => write('current/config/b.yaml') },
  ])('is silent at $name', async ({ act }) => {
    act();
    await eventsHandedOver();
    expect(reported).toEqual([]);
    write('next/config/a.yaml');
    renameSync(at('current'), at('old'));
    renameSync(at('next'), at('current'));
    await reportedOf('changed current');
    expect(reported).toEqual(['changed current']);
  });
});

describe('ChangeWatch without anything to watch', () => {
  it('rejects a missing parent of the root', () => {
    const act = () => startWatch('none/current', true);
    expect(act).toThrow(ConfigSourceError);
    expect(act).toThrow(`unable to watch file (${at('none')}): no such file or directory`);
  });

  it('accepts a missing root, and says when it appears', async () => {
    startWatch('current', true);
    write('current/config/a.yaml');
    await reportedOf('changed current');
  });

  it('rejects a missing app directory', () => {
    mkdirSync(at('root'));
    expect(() => startWatch('root', false)).toThrow(
      `unable to watch file (${at('root/config')}): no such file or directory`,
    );
  });
});
