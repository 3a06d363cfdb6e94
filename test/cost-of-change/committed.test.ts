import { execFileSync } from 'node:child_process';
import { chownSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { committedText } from '../../scripts/cost-of-change/committed.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

/** A repository with one commit on its main branch. */
function repository() {
  const folder = temporaryFolder();
  const identity = ['-c', 'user.name=a', '-c', 'user.email=a@example.com', '-c', 'commit.gpgsign=false'];
  const git = (...args: string[]) =>
    execFileSync('git', [...identity, ...args], { cwd: folder, stdio: 'pipe' });
  const write = (text: string) => writeFileSync(join(folder, 'record'), text);
  const commit = (text: string) => {
    write(text);
    git('add', '.');
    git('commit', '--quiet', '--message', text);
  };
  git('init', '--quiet', '--initial-branch', 'main');
  commit('first');
  return {
    folder,
    git,
    write,
    commit,
    committed: (beforePush?: string) => committedText(folder, 'record', beforePush),
  };
}

describe('what Git has of a file', () => {
  it('is that of the last commit while it is changed on the main branch, and of the one before afterward', () => {
    const { write, commit, committed } = repository();
    expect(committed()).toBe('first');
    write('changed');
    expect(committed()).toBe('first');
    commit('second');
    expect(committed()).toBe('first');
    commit('third');
    expect(committed()).toBe('second');
  });

  it('is that of the commit that a branch began from, however many commits it has', () => {
    const { git, write, commit, committed } = repository();
    commit('second');
    git('switch', '--quiet', '--create', 'branch');
    commit('of the branch');
    commit('of the branch again');
    expect(committed()).toBe('second');
    write('changed');
    expect(committed()).toBe('second');
    git('switch', '--quiet', '--force', 'main');
    commit('third');
    git('switch', '--quiet', 'branch');
    expect(committed()).toBe('second');
  });

  it('is that of the last commit before a push to the main branch, however many commits were pushed', () => {
    const { git, commit, committed } = repository();
    const beforePush = git('rev-parse', 'HEAD').toString().trim();
    commit('second');
    commit('third');
    expect(committed()).toBe('second');
    expect(committed(beforePush)).toBe('first');
    git('update-ref', 'refs/remotes/origin/main', 'HEAD');
    expect(committed(beforePush)).toBe('first');
  });

  it.each([
    ['for a new branch', '0'.repeat(40)],
    ['by another event', ''],
    ['for a commit that was not fetched', 'a'.repeat(40)],
  ])('is that of the commit before when GitHub knows none before the push: %s', (_, beforePush) => {
    const { commit, committed } = repository();
    commit('second');
    commit('third');
    expect(committed(beforePush)).toBe('second');
  });

  it('is that of the commit that a rewritten main branch has in common with the one before the push', () => {
    const { git, commit, committed } = repository();
    commit('second');
    commit('of before');
    const beforePush = git('rev-parse', 'HEAD').toString().trim();
    git('reset', '--quiet', '--hard', 'HEAD^');
    commit('third');
    commit('fourth');
    expect(committed(beforePush)).toBe('second');
  });

  it.runIf(process.getuid?.() === 0)('is read in the folder of another user', () => {
    const { folder, commit, committed } = repository();
    commit('second');
    for (const name of ['', '.git']) chownSync(join(folder, name), 12_345, 12_345);
    expect(committed()).toBe('first');
  });

  it('is nothing outside of a repository', () => {
    expect(committedText(temporaryFolder(), 'record')).toBeUndefined();
  });
});
