import { execFileSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
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
  return { git, write, commit, committed: () => committedText(folder, 'record') };
}

describe('what Git has of a file', () => {
  it('is that of the last commit while it is changed on the main branch, and of the one before afterwards', () => {
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

  it('is nothing outside of a repository', () => {
    expect(committedText(temporaryFolder(), 'record')).toBeUndefined();
  });
});
