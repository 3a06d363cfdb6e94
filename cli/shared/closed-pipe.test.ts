import { EventEmitter } from 'node:events';
import { describe, expect, it } from 'vitest';
import { endureClosedPipes } from './flags.ts';

function errorOf(code: string): Error {
  return Object.assign(new Error(code), { code });
}

describe('a stream that cannot be printed to', () => {
  it('is endured when its reader is gone', () => {
    const [stdout, stderr] = [new EventEmitter(), new EventEmitter()];
    endureClosedPipes([stdout, stderr]);
    expect(() => stdout.emit('error', errorOf('EPIPE'))).not.toThrow();
    expect(() => stderr.emit('error', errorOf('EPIPE'))).not.toThrow();
  });

  it('is an error for any other reason, as a full disk', () => {
    const stdout = new EventEmitter();
    endureClosedPipes([stdout]);
    expect(() => stdout.emit('error', errorOf('ENOSPC'))).toThrow('ENOSPC');
  });
});
