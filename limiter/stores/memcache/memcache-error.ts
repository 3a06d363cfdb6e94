import { StoreError } from '../store-error.ts';

export function closedError(): StoreError {
  return new StoreError('memcache store is closed', { transient: false, notCounted: true });
}

export function notConnected(): StoreError {
  return new StoreError('memcache is not connected', { transient: true, notCounted: true });
}

/** So many commands wait for their answers that one more is not taken. */
export function tooMuchWaiting(): StoreError {
  return new StoreError('too many commands wait for memcache', { transient: true, notCounted: true });
}

export function timedOut(timeoutMs: number): StoreError {
  return new StoreError(`memcache did not answer within ${timeoutMs} ms`, { transient: true });
}

export function lostConnection(): StoreError {
  return new StoreError('connection to memcache was lost before it answered', { transient: true });
}

/** `SERVER_ERROR out of memory storing object` and the like: the connection is good, the command was refused. */
export function refusedByServer(line: string): StoreError {
  return new StoreError(`memcache answered: ${line}`, { transient: line.startsWith('SERVER_ERROR') });
}
