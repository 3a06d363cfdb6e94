import { describe, expect, it } from 'vitest';
import { ConfigSourceError } from '../config-source.ts';
import { fileLayout, type RuntimePaths, watchedDirectory } from './change-watch.ts';

const defaults: RuntimePaths = {
  root: '/srv/runtime_data/current',
  subdirectory: '',
  appDirectory: 'config',
  ignoreDotFiles: false,
  watchRoot: true,
};

interface Case {
  name: string;
  paths: Partial<RuntimePaths>;
  read: string;
  prefix: string;
  watched: string;
}

const cases: Case[] = [
  {
    name: 'the default settings read ROOT',
    paths: {},
    read: '/srv/runtime_data/current',
    prefix: 'config.',
    watched: '/srv/runtime_data',
  },
  {
    name: 'a subdirectory is read with the app directory as prefix',
    paths: { subdirectory: 'ratelimit' },
    read: '/srv/runtime_data/current/ratelimit',
    prefix: 'config.',
    watched: '/srv/runtime_data',
  },
  {
    name: 'slashes at the ends make no difference',
    paths: { root: '/srv/runtime_data/current/', subdirectory: '/ratelimit/', appDirectory: '/config/' },
    read: '/srv/runtime_data/current/ratelimit/',
    prefix: 'config.',
    watched: '/srv/runtime_data',
  },
  {
    name: 'an app directory of two levels',
    paths: { appDirectory: './a/b' },
    read: '/srv/runtime_data/current',
    prefix: 'a.b.',
    watched: '/srv/runtime_data',
  },
  {
    name: 'no app directory reads everything',
    paths: { appDirectory: '' },
    read: '/srv/runtime_data/current',
    prefix: '',
    watched: '/srv/runtime_data',
  },
  {
    name: 'without watchRoot the app directory is read and watched',
    paths: { watchRoot: false, root: '/data', subdirectory: 'ratelimit' },
    read: '/data/ratelimit/config',
    prefix: '',
    watched: '/data/ratelimit/config',
  },
  {
    name: 'without watchRoot the subdirectory may be empty',
    paths: { watchRoot: false, root: '/data' },
    read: '/data/config',
    prefix: '',
    watched: '/data/config',
  },
];

describe('fileLayout', () => {
  it.each(cases)('$name', ({ paths, read, prefix, watched }) => {
    const layout = fileLayout({ ...defaults, ...paths });
    expect([layout.readDirectory, layout.namePrefix]).toEqual([read, prefix]);
    expect(watchedDirectory(layout)).toBe(watched);
  });

  it('rejects an app directory outside the root while the root is watched', () => {
    const act = () => fileLayout({ ...defaults, appDirectory: '../config' });
    expect(act).toThrow(ConfigSourceError);
    expect(act).toThrow(
      "RUNTIME_APPDIRECTORY '../config' must not contain '..' while RUNTIME_WATCH_ROOT is true",
    );
  });
});
