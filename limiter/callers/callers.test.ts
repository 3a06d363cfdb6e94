import { createHash } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { type AdmittedCaller, type CallerConnection, Right } from '../../process/grpc/handlers.ts';
import { ManualClock } from '../../test/support/manual-clock.ts';
import { Callers, type RejectedRequest } from './callers.ts';
import type { CallerEntry } from './callers-file.ts';
import { newRequestRates } from './request-rates.ts';

const secret = 'not-by-chance';
const digest = createHash('sha256').update(secret).digest('hex');

/** Says how often a secret was held against it. */
class WatchedHashes extends Array<string> {
  looks = 0;

  override [Symbol.iterator](): ArrayIterator<string> {
    this.looks += 1;
    return super[Symbol.iterator]();
  }
}

class Fixture {
  readonly clock = new ManualClock(0);
  readonly refused: RejectedRequest[] = [];
  readonly gate = new Callers({
    clock: this.clock,
    onRejected: (refused) => this.refused.push(refused),
    onUnknownToken: () => (this.unknownTokens += 1),
  });
  unknownTokens = 0;
  certificatesRead = 0;

  use(...given: Partial<CallerEntry>[]): void {
    const entries = given.map((entry, index) => ({
      ...{ name: `c${index}`, certificates: [], tokenHashes: [], anonymous: false, domains: ['*'] },
      ...{ rights: Right.ASK, requestsPerSecond: undefined, onExcess: 'error' as const, ...entry },
    }));
    const rates = newRequestRates(
      entries.map(({ requestsPerSecond }) => requestsPerSecond),
      this.clock.ms,
    );
    this.gate.use({ entries, rates });
  }

  connection(): CallerConnection {
    const certificate = (): undefined => {
      this.certificatesRead += 1;
      return undefined;
    };
    return { peer: { address: '192.0.2.1:4711', certificate }, callerMemo: undefined };
  }

  /** `true`, or what the caller is sent. */
  ask(connection: CallerConnection, authorization: string): true | string {
    const { rejected: refused } = this.gate.admit(connection, authorization);
    return refused === undefined ? true : refused.message;
  }
}

const unknown = 'the token does not belong to a caller';

describe('a token', () => {
  it('is verified once for a connection and value', () => {
    const fixture = new Fixture();
    const hashes = WatchedHashes.from([digest]) as WatchedHashes;
    fixture.use({ name: 'a', tokenHashes: hashes }, { name: 'b', tokenHashes: hashes });
    hashes.looks = 0;
    const [one, other] = [fixture.connection(), fixture.connection()];
    const ask = (connection: CallerConnection, name: string): number => {
      expect(fixture.ask(connection, `Bearer ${name}.${secret}`)).toBe(true);
      return hashes.looks;
    };
    expect([ask(one, 'a'), ask(one, 'a'), ask(one, 'b'), ask(one, 'a'), ask(one, 'b')]).toEqual([
      1, 1, 2, 2, 2,
    ]);
    expect([ask(other, 'a'), ask(other, 'a'), ask(one, 'a')]).toEqual([3, 3, 3]);
    expect(fixture.certificatesRead).toBe(2);
  });

  it('is verified again when other callers are in force, and the certificate not read again', () => {
    const fixture = new Fixture();
    const connection = fixture.connection();
    fixture.use({ name: 'a', tokenHashes: [digest] });
    expect(fixture.ask(connection, `Bearer a.${secret}`)).toBe(true);
    fixture.use({ name: 'a', tokenHashes: ['0'.repeat(64)] });
    expect(fixture.ask(connection, `Bearer a.${secret}`)).toBe(unknown);
    fixture.use({ name: 'a', tokenHashes: ['0'.repeat(64), digest] });
    expect(fixture.ask(connection, `Bearer a.${secret}`)).toBe(true);
    expect(fixture.certificatesRead).toBe(1);
  });

  it('is looked up by its name, so that no other caller’s hash is looked at', () => {
    const fixture = new Fixture();
    const hashes = WatchedHashes.from([digest]) as WatchedHashes;
    fixture.use({ name: 'a', tokenHashes: hashes }, { name: 'b', tokenHashes: ['0'.repeat(64)] });
    hashes.looks = 0;
    const connection = fixture.connection();
    for (const name of ['b', 'c', 'A', 'constructor', '__proto__', '']) {
      expect(fixture.ask(connection, `Bearer ${name}.${secret}`)).toBe(unknown);
    }
    expect(hashes.looks).toBe(0);
  });

  it.each([
    [`bearer a.${secret}`, true],
    [`BEARER   a.${secret}  `, true],
    [`Bearer a.${secret}x`, unknown],
    [`Bearer a.${secret}, Bearer a.${secret}`, unknown],
    [`Bearer a.${secret}\t`, unknown],
    [`Bearer a..${secret}`, unknown],
    [`Bearer a.${digest}`, unknown],
    [`Basic a.${secret}`, unknown],
    [`a.${secret}`, unknown],
    [`Bearera.${secret}`, unknown],
    ['Bearer a.', unknown],
    ['Bearer a', unknown],
    ['Bearer', unknown],
    [`Bearer a.${'x'.repeat(100_000)}`, unknown],
    ['', 'the request has neither a token nor a client certificate of a caller'],
  ])('in %.40j is answered %j', (authorization, answer) => {
    const fixture = new Fixture();
    fixture.use({ name: 'a', tokenHashes: [digest] });
    const connection = fixture.connection();
    // The second time from memory.
    expect([fixture.ask(connection, authorization), fixture.ask(connection, authorization)]).toEqual([
      answer,
      answer,
    ]);
  });

  it('that is wrong never becomes right by one that was before, or after', () => {
    const fixture = new Fixture();
    fixture.use({ name: 'a', tokenHashes: [digest] });
    const connection = fixture.connection();
    const [right, wrong, long] = [`Bearer a.${secret}`, 'Bearer a.no', `Bearer a.${'y'.repeat(600)}`];
    const asked = [right, wrong, right, long, long, wrong, '', right].map((one) =>
      fixture.ask(connection, one),
    );
    const none = 'the request has neither a token nor a client certificate of a caller';
    expect(asked).toEqual([true, unknown, true, unknown, unknown, unknown, none, true]);
    expect(JSON.stringify(fixture.refused)).not.toContain(secret);
  });

  it('may change on one connection as often as it likes', () => {
    const fixture = new Fixture();
    const names = Array.from({ length: 100 }, (_, index) => `c${index}`);
    fixture.use(...names.map((name) => ({ name, tokenHashes: [digest] })));
    const connection = fixture.connection();
    for (const name of [...names, ...names]) {
      expect(fixture.ask(connection, `Bearer ${name}.${secret}`)).toBe(true);
    }
  });
});

describe('a caller', () => {
  it('has the domains of its patterns and no others, whatever is asked in between', () => {
    const fixture = new Fixture();
    fixture.use({ name: 'a', tokenHashes: [digest], domains: ['shop', 'pay-*', '*.eu', 'a*b*c'] });
    const { gate } = fixture;
    const caller = gate.admit(fixture.connection(), `Bearer a.${secret}`) as AdmittedCaller;
    const has = (domain: string): boolean => caller.rejection(domain, Right.ASK) === undefined;
    for (let index = 0; index < 3_000; index++) has(`pay-${index}`);
    const good = ['shop', 'pay-', 'pay-a.b', '.eu', 'x.y.eu', 'abc', 'a1b2c', `pay-${'x'.repeat(10_000)}`];
    expect(good.filter((domain) => !has(domain))).toEqual([]);
    const bad = ['', 'Shop', 'shop ', 'shops', 'pay', 'PAY-a', 'eu', 'x.eu.', 'ac', 'acb', '*', 'ｓhop'];
    expect(bad.filter(has)).toEqual([]);
  });

  it('is rejected with what it lacks, and counted under its name and reason', () => {
    const fixture = new Fixture();
    fixture.use({ name: 'a', tokenHashes: [digest], domains: ['d'], requestsPerSecond: 1 });
    const connection = fixture.connection();
    const caller = fixture.gate.admit(connection, `Bearer a.${secret}`) as AdmittedCaller;
    expect(caller.rejection('d', Right.ASK | Right.REFUND | Right.OVERRIDE)?.message).toBe(
      'caller a does not have the right refund and override',
    );
    expect(caller.rejection('\u0000"\n', Right.ASK)?.message).toBe(
      'caller a may not use the domain "\\u0000\\"\\n"',
    );
    expect(fixture.ask(connection, `Bearer a.${secret}`)).toContain('asks more than 1 times a second');
    expect(fixture.ask(connection, 'Bearer a.no')).toBe(unknown);
    expect(fixture.refused.map(({ caller: name, reason }) => `${name} ${reason}`)).toEqual([
      ...['a permission_denied', 'a permission_denied', 'a over_rate', 'unknown unauthenticated'],
    ]);
  });

  it('that only the anonymous caller matches is shown that its token matches no caller, and counted', () => {
    const fixture = new Fixture();
    fixture.use(
      { name: 'a', tokenHashes: [digest] },
      { name: 'anonymous', anonymous: true, domains: ['d'], requestsPerSecond: 2 },
    );
    const connection = fixture.connection();
    const about = (authorization: string): string | undefined => {
      const caller = fixture.gate.admit(connection, authorization);
      return caller.rejected === undefined
        ? caller.rejection('bank', Right.ASK)?.message
        : caller.rejected.message;
    };
    const [domain, rate, note] = [
      'caller anonymous may not use the domain "bank"',
      'caller anonymous asks more than 2 times a second (requests_per_second)',
      ' (its token does not belong to a caller)',
    ];
    expect([about(''), about('Bearer a.no')]).toEqual([domain, domain + note]);
    expect([about('Bearer a.no'), about('')]).toEqual([rate + note, rate]);
    expect(fixture.refused.map(({ problem }) => problem)).toEqual([
      ...[domain, domain + note, rate + note, rate],
    ]);
    expect(fixture.unknownTokens).toBe(1);
    fixture.ask(connection, 'Bearer b.other');
    fixture.ask(connection, `Bearer a.${secret}`);
    expect(fixture.unknownTokens).toBe(2);
  });

  it('spends none of its rate on requests of others, nor on those of unknown callers', () => {
    const fixture = new Fixture();
    fixture.use(
      { name: 'a', tokenHashes: [digest], requestsPerSecond: 2 },
      { name: 'b', tokenHashes: [digest] },
    );
    const connection = fixture.connection();
    for (let index = 0; index < 10; index++) {
      expect(fixture.ask(connection, 'Bearer a.no')).toBe(unknown);
      expect(fixture.ask(connection, `Bearer b.${secret}`)).toBe(true);
    }
    const asked = [1, 2, 3].map(() => fixture.ask(fixture.connection(), `Bearer a.${secret}`) === true);
    expect(asked).toEqual([true, true, false]);
    fixture.clock.ms += 500;
    expect(fixture.ask(connection, `Bearer a.${secret}`)).toBe(true);
  });
});
