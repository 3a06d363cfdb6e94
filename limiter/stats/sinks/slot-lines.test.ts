import { expect, it } from 'vitest';
import { StatsRegistry } from '../registry/stats-registry.ts';
import { dogStatsdSlots } from './dogstatsd-sink.ts';
import { Mogrifiers } from './mogrifier.ts';

/** A source with one slot, which the test names and counts. */
class OneSlot extends StatsRegistry {
  name = 'first';
  generation = 1;
  total = 0;

  override generationOf(): number {
    return this.generation;
  }

  override kindOf(): 'counter' {
    return 'counter';
  }

  override valueOf(): number {
    return this.total;
  }

  override plainNameOf(): string {
    return this.name;
  }

  override tagsOf(): [] {
    return [];
  }
}

it('counts from zero and takes the new name when a slot stands for something else', () => {
  const source = new OneSlot();
  const lines = dogStatsdSlots(source, new Mogrifiers([]));
  source.total = 5;
  expect(lines.lineOf(0)).toBe('first:5|c');
  lines.noteSent(0);
  expect(lines.lineOf(0)).toBeUndefined();
  source.name = 'second';
  source.generation = 2;
  source.total = 3;
  expect(lines.lineOf(0)).toBe('second:3|c');
  source.generation = 0;
  expect(lines.lineOf(0)).toBeUndefined();
});
