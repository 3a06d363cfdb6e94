import { describe, expect, it } from 'vitest';
import {
  ApiError,
  isDenied,
  isRejection,
  isTransient,
  isWatchRejected,
  rejection,
  unreachable,
  unreadable,
  watchError,
} from './api.ts';

const answered = (status: number): ApiError => rejection({ status, body: '', request: 'PATCH /x' });
const failed = (code: string): ApiError =>
  unreachable('https://10.0.0.1', Object.assign(new Error(code), { code }));
const reasoned = (reason: string): ApiError => new ApiError({ status: 0, reason, message: reason });

describe('isTransient', () => {
  it.each([401, 408, 425, 429, 500, 501, 502, 503, 504, 507])('takes status %i for transient', (status) => {
    expect(isTransient(answered(status))).toBe(true);
  });

  it.each([301, 400, 403, 404, 405, 406, 409, 410, 413, 415, 422, 423, 428, 431])(
    'takes status %i for final',
    (status) => {
      expect(isTransient(answered(status))).toBe(false);
    },
  );

  it.each([
    'ECONNREFUSED',
    'ECONNRESET',
    'EPIPE',
    'ETIMEDOUT',
    'EHOSTUNREACH',
    'ENETUNREACH',
    'ENOTFOUND',
    'EAI_AGAIN',
    'CERT_HAS_EXPIRED',
    'DEPTH_ZERO_SELF_SIGNED_CERT',
    'ERR_TLS_CERT_ALTNAME_INVALID',
  ])('takes %s for transient', (code) => {
    expect(isTransient(failed(code))).toBe(true);
  });

  it('takes an answer that cannot be read, no answer in time and missing credentials for transient', () => {
    expect(isTransient(unreadable('not JSON'))).toBe(true);
    expect(isTransient(reasoned('Timeout'))).toBe(true);
    expect(isTransient(reasoned('Credentials'))).toBe(true);
  });

  it('takes a request that its caller aborted for final', () => {
    expect(isTransient(reasoned('Aborted'))).toBe(false);
  });

  it('goes by the code of an error event in a watch', () => {
    expect(isTransient(watchError({ code: 410, reason: 'Expired' }, 'watch of /x'))).toBe(false);
    expect(isTransient(watchError({ code: 504, reason: 'Timeout' }, 'watch of /x'))).toBe(true);
  });
});

describe('isDenied', () => {
  it('is true for 401 and 403 alone', () => {
    const statuses = [0, 400, 401, 402, 403, 404, 500];
    const denied = statuses.filter((status) => isDenied(new ApiError({ status, reason: '', message: '' })));
    expect(denied).toEqual([401, 403]);
  });
});

describe('isWatchRejected', () => {
  it('is true for 401, 403 and 404 alone', () => {
    const statuses = [0, 400, 401, 402, 403, 404, 405, 410, 500];
    expect(statuses.filter((status) => isWatchRejected({ status }))).toEqual([401, 403, 404]);
  });
});

describe('isRejection', () => {
  it('is true for answers of a server that was reached and took nothing', () => {
    expect(
      [399, 400, 401, 404, 409, 422, 499, 500, 503].filter((status) => isRejection(answered(status))),
    ).toEqual([400, 401, 404, 409, 422, 499]);
    expect([failed('ECONNRESET'), reasoned('Timeout'), new Error('400')].filter(isRejection)).toEqual([]);
  });
});

describe('an answer that is not a Status object', () => {
  it.each(['null', '7', '"text"', '[]', '{"reason": 7, "message": ["a"]}'])(
    'such as %s is an error, too',
    (body) => {
      const error = rejection({ status: 502, body, request: 'GET /x' });
      expect(error).toMatchObject({ status: 502, reason: expect.any(String) });
      expect(error.message).toContain('502');
    },
  );
});
