import { gunzipSync } from 'node:zlib';
import { describe, expect, it } from 'vitest';
import { ScrapeBodies, type ScrapeBody } from './prometheus-listener.ts';

class Composer {
  composed = 0;
  release = (): void => {};
  readonly bodies = new ScrapeBodies(() => this.#compose());

  async *#compose(): AsyncGenerator<string> {
    this.composed += 1;
    await new Promise<void>((resolve) => {
      this.release = resolve;
    });
    yield `number ${this.composed}, `;
    yield '';
    yield 'größe';
  }
}

async function text(body: ScrapeBody): Promise<string> {
  return Buffer.concat([...(await body.chunks('identity'))]).toString();
}

describe('ScrapeBodies', () => {
  it('builds one answer for all callers that ask meanwhile, and another one afterward', async () => {
    const composer = new Composer();
    const first = [composer.bodies.next(), composer.bodies.next(), composer.bodies.next()];
    composer.release();
    expect(await Promise.all((await Promise.all(first)).map(text))).toEqual(Array(3).fill('number 1, größe'));
    const second = composer.bodies.next();
    composer.release();
    expect(await text(await second)).toBe('number 2, größe');
    expect(composer.composed).toBe(2);
  });

  it('compresses an answer once', async () => {
    const composer = new Composer();
    const next = composer.bodies.next();
    composer.release();
    const body = await next;
    const [one, other] = await Promise.all([body.chunks('gzip'), body.chunks('gzip')]);
    expect(one).toBe(other);
    expect(gunzipSync(Buffer.concat([...one])).toString()).toBe('number 1, größe');
  });

  it('fails for all requests that waited, and restarts', async () => {
    let fails = true;
    const bodies = new ScrapeBodies(async function* () {
      yield 'a';
      if (fails) throw new Error('broken');
    });
    const asked = [bodies.next(), bodies.next()];
    expect((await Promise.allSettled(asked)).map(({ status }) => status)).toEqual(['rejected', 'rejected']);
    fails = false;
    expect(await text(await bodies.next())).toBe('a');
  });
});
