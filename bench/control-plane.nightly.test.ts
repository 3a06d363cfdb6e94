import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { describe, expect, it } from 'vitest';

interface Result {
  name: string;
  median: number;
  target?: number;
}

const program = fileURLToPath(new URL('./control-plane.ts', import.meta.url));
/** A fifth of the default numbers, with which the measurement would take as long as all other tests. */
const numbers = ['--limiters', '200', '--fleets', '20', '--objects', '1000'];

describe('npm run bench:control-plane', () => {
  it('reaches its targets at a fifth of their numbers', async () => {
    const { stdout } = await promisify(execFile)(process.execPath, [program, '--json', ...numbers]);
    const results = JSON.parse(stdout) as Result[];
    for (const { name, median } of results) console.log(`${name}: ${median.toFixed(0)}`);
    const measured = results.filter(({ target }) => target !== undefined);
    expect(measured).toHaveLength(2);
    for (const { name, median, target } of measured) expect(median, name).toBeLessThan(target as number);
    const storm = results.find(({ name }) => name.startsWith('1,000 changes in a second'));
    expect(storm?.median).toBeLessThanOrEqual(15);
  }, 120_000);
});
