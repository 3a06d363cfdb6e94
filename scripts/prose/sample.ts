/** Extracts sentences from texts in several markup languages, and takes samples of them. */

import { FlagError } from '../../test/support/script-flags.ts';
import { paragraphsOf } from './lint.ts';
import { sentencesOf } from './sentence-rules.ts';

export interface Sentence {
  text: string;
  source: 'ours' | 'theirs';
}

/** Returns sentences of running text, without headings, lists of names, code, or fragments. */
export async function sentencesIn(text: string, extension: string): Promise<string[]> {
  const paragraphs = extension === '.md' ? await paragraphsOf(text) : plainParagraphs(text, extension);
  return paragraphs
    .flatMap(sentencesOf)
    .map((sentence) => sentence.replaceAll(/\s+/g, ' ').trim())
    .filter((sentence) => /^[A-Z].*[.!?]$/.test(sentence) && sentence.split(' ').length >= 5);
}

function plainParagraphs(text: string, extension: string): string[] {
  if (extension === '.html' || extension === '.sgml') {
    const found = text.matchAll(/<(p|para)>(.*?)<\/\1>/gs);
    return [...found].map(([, , inner = '']) => inner.replaceAll(/<[^>]*>/g, '').replaceAll(/&\w+;/g, ' '));
  }
  return text
    .split(/\n\s*\n/)
    .filter((paragraph) => !/^(\.\.|[\s*\-+|:])|^.*\n[=\-~^"#]{3,}/.test(paragraph))
    .map((paragraph) =>
      paragraph
        .replaceAll(/:[\w:]+:`([^`<]*)[^`]*`/g, '$1')
        .replaceAll(/`([^`<]*)[^`]*`_*/g, '$1')
        .replaceAll('`', ''),
    );
}

/** Returns a generator of numbers in [0, 1) that depend only on the seed (mulberry32). */
function randomOf(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

function shuffled<T>(items: readonly T[], random: () => number): T[] {
  const copy = [...items];
  for (let last = copy.length - 1; last > 0; last--) {
    const other = Math.floor(random() * (last + 1));
    [copy[last], copy[other]] = [copy[other]!, copy[last]!];
  }
  return copy;
}

/** Returns `count` different sentences of each source, in random order. @throws FlagError if a source has fewer */
export function mixSentences(
  sources: Readonly<Record<Sentence['source'], readonly string[]>>,
  { seed, count }: { seed: number; count: number },
): Sentence[] {
  const random = randomOf(seed);
  const chosen = (['ours', 'theirs'] as const).flatMap((source) => {
    const different = [...new Set(sources[source])];
    if (different.length < count)
      throw new FlagError(`${source}: ${different.length} sentences, ${count} are needed`);
    return shuffled(different, random)
      .slice(0, count)
      .map((text) => ({ text, source }));
  });
  return shuffled(chosen, random);
}

/** Returns percentages of each source. `numbers` count from 1. @throws FlagError for one that the sample does not have */
export function shareOfMarked(
  sample: readonly Sentence[],
  numbers: readonly number[],
): Record<Sentence['source'], number> {
  const marked = [...new Set(numbers)].map((number) => {
    const sentence = sample[number - 1];
    if (sentence === undefined) throw new FlagError(`the sample has no sentence ${number}`);
    return sentence;
  });
  const share = (source: Sentence['source']): number => {
    const of = ({ source: own }: Sentence) => own === source;
    return Math.round((1000 * marked.filter(of).length) / sample.filter(of).length) / 10;
  };
  return { ours: share('ours'), theirs: share('theirs') };
}
