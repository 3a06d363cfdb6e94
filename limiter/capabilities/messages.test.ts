import { expect, it } from 'vitest';
import { type MessageCarrier, Threads } from './messages.ts';

interface Messages {
  square(of: number): number;
}

/** A worker for each answer; undefined is one that cannot answer. */
function threadsOf(answers: readonly (number | undefined)[]) {
  const carrier: MessageCarrier = {
    count: answers.length,
    ask: async ({ argument }) => [(argument as number) ** 2],
    askOne: async (worker) => answers[worker - 1],
    reach: async () => [],
    publish: async () => {},
  };
  return new Threads(carrier, 'numbers').of<Messages>();
}

it.each([
  ['the only thread', [], 9],
  ['the first of its workers that can', [undefined, 4, 5], 4],
  ['nobody, if no worker can', [undefined, undefined], undefined],
])('gets an answer of any thread: of %s', async (_, answers, expected) => {
  expect(await threadsOf(answers).askAny('square', 3)).toBe(expected);
});
