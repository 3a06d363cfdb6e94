import { describe, expect, it } from 'vitest';
import { commandTimedOut, RedisErrors } from './redis-error.ts';
import { ReplyError } from './resp.ts';

const errors = new RedisErrors({ timeoutMs: 250, password: 'hunter2' });

describe('RedisErrors', () => {
  it.each([
    [
      new ReplyError('WRONGTYPE Operation against a key'),
      'Redis answered: WRONGTYPE Operation against a key',
      false,
    ],
    [new ReplyError('LOADING Redis is loading'), 'Redis answered: LOADING Redis is loading', true],
    [new ReplyError('READONLY You can not write'), 'Redis answered: READONLY You can not write', true],
    [
      new ReplyError("ERR unknown command 'AUTH', 'hunter2'"),
      'Redis answered: ERR (the rest is hidden because it contains the password)',
      false,
    ],
    [commandTimedOut(250), 'Redis did not answer within 250 ms', true],
    [errors.notConnected(), 'Redis is not connected', true],
    [new Error('Connection is closed.'), 'connection to Redis was lost before it answered', true],
    ['text', 'Redis gave an answer of an unexpected form', false],
  ])('words %s of a command', (foreign, message, transient) => {
    const { message: worded, transient: judged, cause } = errors.fromCommand(foreign);
    expect({ worded, judged, cause }).toEqual({ worded: message, judged: transient, cause: undefined });
  });

  it('keeps what the system says about connecting', () => {
    const parts = { syscall: 'connect', code: 'ECONNREFUSED', address: '127.0.0.1', port: 1 };
    const foreign = Object.assign(new Error('anything'), parts);
    expect(errors.fromConnecting(foreign).message).toBe('connect ECONNREFUSED 127.0.0.1:1');
  });

  it('keeps of an error of TLS what it is about', () => {
    const parts = { code: 'ERR_SSL_WRONG_VERSION_NUMBER', reason: 'wrong version number' };
    const foreign = Object.assign(new Error('0012:error:0A00010B:SSL routines:x.c:354:'), parts);
    expect(errors.fromConnecting(foreign).message).toBe('TLS: wrong version number');
  });

  it('words a wait for a place, and none', () => {
    const { message, transient, notCounted, noAnswer } = errors.noPlace(50);
    expect({ message, transient, notCounted, noAnswer }).toEqual({
      message: 'too many calls to Redis were open within 50 ms (REDIS_POOL_SIZE)',
      transient: true,
      notCounted: true,
      noAnswer: true,
    });
    expect(errors.noPlace(0).message).toBe('too many calls to Redis were open (REDIS_POOL_SIZE)');
    expect(errors.noPlace(undefined).message).toBe('Redis store is closed');
  });

  it('takes no silence for a word of Redis', () => {
    expect(errors.timedOut().marked(true)).toMatchObject({ noAnswer: true, notCounted: true });
    expect(errors.fromCommand(new ReplyError('OOM full')).noAnswer).toBe(false);
  });

  it('knows what Redis 6 says to a command of a script', () => {
    const full = "OOM command not allowed when used memory > 'maxmemory'.";
    for (const reply of [full, `-${full}`, `@user_script: 2085: -${full}`])
      expect(errors.fromCommand(new ReplyError(reply))).toMatchObject({
        ...{ message: `Redis answered: ${full}`, transient: true, notCounted: true },
      });
  });

  it('reports what Redis rejects, but not when it is about logging in', () => {
    const reported: string[][] = [];
    const onRejection = (code: string, text: string) => reported.push([code, text]);
    const reporting = new RedisErrors({ timeoutMs: 1, password: 'hunter2', onRejection });
    reporting.fromConnecting(new ReplyError('WRONGPASS hunter2'));
    reporting.fromOwnCommand(new ReplyError('NOAUTH Authentication required.'));
    expect(reported).toEqual([]);
    reporting.fromCommand(new ReplyError('ERR wrong hunter2'));
    expect(reported).toEqual([['ERR', 'ERR (the rest is hidden because it contains the password)']]);
  });

  it.each(['n', 'o', 'unknown', 'ERR'])(
    'shows nothing of the password %s, which the text may hold by chance',
    (password) => {
      const errors = new RedisErrors({ timeoutMs: 1, password });
      const { message } = errors.fromOwnCommand(new ReplyError('ERR unknown command'));
      const start = password === 'ERR' ? '' : 'ERR ';
      expect(message).toBe(`Redis answered: ${start}(the rest is hidden because it contains the password)`);
    },
  );

  it('reports READONLY alone', () => {
    let reported = 0;
    const onReadOnly = () => {
      reported += 1;
    };
    const reporting = new RedisErrors({ timeoutMs: 1, password: undefined, onReadOnly });
    reporting.fromCommand(new ReplyError('LOADING Redis is loading'));
    reporting.fromCommand(new Error('READONLY of another kind'));
    expect(reported).toBe(0);
    reporting.fromCommand(new ReplyError('READONLY You can not write'));
    expect(reported).toBe(1);
  });

  it('shows no path of a socket and no arguments of a command', () => {
    const parts = { syscall: 'connect', code: 'ENOENT', address: 'user:hunter2@host:1' };
    const wrongPath = Object.assign(new Error('connect ENOENT user:hunter2@host:1'), parts);
    expect(errors.fromConnecting(wrongPath).message).toBe('connect ENOENT');
    const repeated = new ReplyError("ERR unknown command 'AUTH', with args beginning with: 'hunte' ");
    expect(errors.fromConnecting(repeated).message).toBe("Redis answered: ERR unknown command 'AUTH'");
  });
});
