import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { ManualTimers } from '../../test/support/manual-timers.ts';
import {
  type ConnectionBytes,
  ConnectionMemory,
  type MemoryOwner,
  sharedCells,
} from './connection-memory.ts';

const timers = new ManualTimers();

/** A connection whose pieces were started one after the other. */
class PlayedConnection implements MemoryOwner {
  readonly name: string;
  readonly use: ConnectionBytes;
  /** Pieces that can be ended. */
  readonly pieces: { begun: number; bytes: number }[] = [];
  /** Bytes that wait for others than its caller. */
  stuckBytes = 0;
  readonly #ended: string[];

  constructor(account: ConnectionMemory, name: string, address: string, ended: string[]) {
    this.name = name;
    this.#ended = ended;
    this.use = account.open(address, this);
  }

  get bytes(): number {
    return this.pieces.reduce((sum, piece) => sum + piece.bytes, this.stuckBytes);
  }

  begin(begun: number, bytes: number): void {
    this.pieces.push({ begun, bytes });
    this.use.set(this.bytes);
  }

  shed(): boolean {
    const piece = this.pieces.shift();
    if (piece === undefined) return false;
    this.#ended.push(`${this.name} ${piece.begun}`);
    this.use.set(this.bytes);
    return true;
  }
}

describe('ConnectionMemory', () => {
  it('ends what is unfinished longest of the largest connection of the largest address', () => {
    const ended: string[] = [];
    const account = new ConnectionMemory({ maxBytes: 100, timers });
    const [small, large, other] = [
      new PlayedConnection(account, 'small', '192.0.2.1', ended),
      new PlayedConnection(account, 'large', '192.0.2.1', ended),
      new PlayedConnection(account, 'other', '192.0.2.2', ended),
    ];
    small.begin(1, 20);
    large.begin(2, 10);
    large.begin(3, 20);
    other.begin(4, 40);
    expect(ended).toEqual([]);
    other.begin(5, 15);
    expect([ended, account.bytes]).toEqual([['other 4'], 65]);
    small.begin(6, 36);
    // Among connections of the same address, the other one now holds more.
    expect([ended, account.bytes]).toEqual([['other 4', 'small 1'], 81]);
  });

  it('leaves alone a connection that holds little, and asks the next one', () => {
    const ended: string[] = [];
    const account = new ConnectionMemory({ maxBytes: 100, timers });
    const stuck = new PlayedConnection(account, 'stuck', '192.0.2.1', ended);
    const other = new PlayedConnection(account, 'other', '192.0.2.2', ended);
    stuck.stuckBytes = 90;
    stuck.use.set(90);
    other.begin(1, 20);
    expect([ended, account.bytes]).toEqual([[], 20]);
  });

  it('does not look at small changes that are reported, and sees those that add up', () => {
    const account = new ConnectionMemory({ maxBytes: 100_000, timers });
    const use = account.open('192.0.2.1', { shed: () => false });
    const seen = [2_000, 2_047, 2_048, 3_000, 4_096, 2_049, 2_048, 1, 0].map((bytes) => {
      use.report(bytes);
      return account.bytes;
    });
    expect(seen).toEqual([0, 0, 2_048, 2_048, 4_096, 4_096, 2_048, 2_048, 0]);
  });

  it('asks those that do not report what they hold', () => {
    const account = new ConnectionMemory({ maxBytes: 10_000, timers });
    let bytes = 9_000;
    let sheds = 0;
    const use = account.open('192.0.2.1', {
      measure: () => bytes,
      shed: () => {
        sheds += 1;
        use.set(0);
        return true;
      },
    });
    expect(account.bytes).toBe(0);
    timers.advance(250);
    expect([account.bytes, sheds]).toEqual([9_000, 0]);
    bytes = 12_000;
    timers.advance(250);
    expect([account.bytes, sheds]).toEqual([0, 1]);
    use.close();
    timers.advance(250);
    expect(account.bytes).toBe(0);
  });

  it('sets its timer while there are connections', () => {
    const own = new ManualTimers();
    const account = new ConnectionMemory({ maxBytes: 100, timers: own });
    const sizes = [own.size];
    const [first, second] = ['192.0.2.1', '192.0.2.2'].map((one) => account.open(one, { shed: () => false }));
    sizes.push(own.size);
    first?.close();
    sizes.push(own.size);
    second?.close();
    second?.close();
    sizes.push(own.size);
    expect(sizes).toEqual([0, 1, 1, 0]);
  });

  it('lets a thread hold what others do not, and makes it give that back when they need it', () => {
    const cells = sharedCells(2);
    const ended: string[] = [];
    const [first, second] = [0, 1].map(
      (own) => new ConnectionMemory({ maxBytes: 102_400, shared: { cells, own }, timers }),
    );
    const greedy = new PlayedConnection(first!, 'greedy', '192.0.2.1', ended);
    for (let piece = 1; piece <= 9; piece += 1) greedy.begin(piece, 10_240);
    expect(ended).toEqual([]);
    const modest = new PlayedConnection(second!, 'modest', '192.0.2.2', ended);
    modest.begin(1, 20_480);
    // This thread is below its part: the other thread has to release memory at its next check.
    expect(ended).toEqual([]);
    timers.advance(250);
    expect([ended, first!.bytes + second!.bytes]).toEqual([['greedy 1'], 102_400]);
  });

  it('reuses a cell that a thread left full', () => {
    const cells = sharedCells(2);
    new ConnectionMemory({ maxBytes: 1_000_000, shared: { cells, own: 1 }, timers })
      .open('', { shed: () => false })
      .set(500_000);
    expect(cells[1]).toBe(489);
    new ConnectionMemory({ maxBytes: 1_000_000, shared: { cells, own: 1 }, timers });
    expect(cells[1]).toBe(0);
  });

  it('chooses as if it read everything each time', () => {
    const step = fc.record({
      connection: fc.nat(11),
      kind: fc.nat(9),
      bytes: fc.integer({ min: 1, max: 60 }),
    });
    fc.assert(
      fc.property(fc.array(step, { maxLength: 200 }), (steps) => {
        const [ended, wanted]: [string[], string[]] = [[], []];
        const account = new ConnectionMemory({ maxBytes: 300, timers });
        const naive = new NaiveAccount(300, wanted);
        const open = new Map<number, PlayedConnection>();
        for (const [begun, { connection, kind, bytes }] of steps.entries()) {
          const [name, address] = [`c${connection}`, `192.0.2.${connection % 4}`];
          if (kind === 0) {
            open.get(connection)?.use.close();
            open.delete(connection);
            naive.close(name);
          } else {
            const played = open.get(connection) ?? new PlayedConnection(account, name, address, ended);
            open.set(connection, played);
            // A random fraction makes all sizes different.
            const unlike = bytes + begun / 1024;
            played.begin(begun, unlike);
            naive.begin(name, address, begun, unlike);
          }
          expect(ended).toEqual(wanted);
          expect(account.bytes).toBeCloseTo(naive.bytes, 6);
        }
      }),
    );
  });
});

class NaiveAccount {
  readonly #maxBytes: number;
  readonly #ended: string[];
  readonly #connections = new Map<string, { address: string; pieces: { begun: number; bytes: number }[] }>();

  constructor(maxBytes: number, ended: string[]) {
    this.#maxBytes = maxBytes;
    this.#ended = ended;
  }

  get bytes(): number {
    return this.#sum(() => true);
  }

  begin(name: string, address: string, begun: number, bytes: number): void {
    const connection = this.#connections.get(name) ?? { address, pieces: [] };
    this.#connections.set(name, connection);
    connection.pieces.push({ begun, bytes });
    while (this.bytes > this.#maxBytes) {
      const names = [...this.#connections.keys()];
      const ofAddress = (one: string) => this.#sum((_, of) => of === this.#connections.get(one)?.address);
      const own = (one: string) => this.#sum((of) => of === one);
      names.sort((a, b) => ofAddress(b) - ofAddress(a) || own(b) - own(a));
      const largest = names[0] as string;
      const piece = this.#connections.get(largest)?.pieces.shift();
      this.#ended.push(`${largest} ${piece?.begun}`);
    }
  }

  close(name: string): void {
    this.#connections.delete(name);
  }

  #sum(counts: (name: string, address: string) => boolean): number {
    let sum = 0;
    for (const [name, { address, pieces }] of this.#connections) {
      if (counts(name, address)) sum += pieces.reduce((bytes, piece) => bytes + piece.bytes, 0);
    }
    return sum;
  }
}
