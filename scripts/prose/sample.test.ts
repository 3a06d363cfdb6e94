import { describe, expect, it } from 'vitest';
import { mixSentences, sentencesIn, shareOfMarked } from './sample.ts';

describe('sentences of a text', () => {
  it.each([
    [
      '.md',
      '# A heading here is left out.\n\nThe `limiter` counts each\nrequest once. Not five.\n\n| A table cell is left out. | b |\n|---|---|\n\n- Items of a list are taken too.',
    ],
    [
      '.rst',
      'Title\n=====\n\nThe :ref:`limiter <x>` counts each\nrequest once. Not five.\n\n.. note:: A note is left out here.\n\nItems of a list are taken too.',
    ],
    [
      '.sgml',
      '<para>The <literal>limiter</literal> counts each\nrequest once. Not five.</para><title>A title is left out here.</title><para>Items of a list are taken too.</para>',
    ],
  ])('%s', async (extension, text) => {
    const [first, ...others] = await sentencesIn(text, extension);
    expect(first).toBe('The limiter counts each request once.');
    expect(others).toEqual(['Items of a list are taken too.']);
  });
});

describe('a sample', () => {
  const of = (name: string) => Array.from({ length: 30 }, (_, n) => `Sentence ${n} of ${name}.`);
  const sources = { ours: of('ours'), theirs: of('theirs') };
  const take = (seed: number) => mixSentences(sources, { seed, count: 10 });

  it('has as many sentences of both, mixed, by its seed', () => {
    const sample = take(1);
    expect(sample.filter(({ source }) => source === 'ours')).toHaveLength(10);
    expect(new Set(sample.map(({ text }) => text)).size).toBe(20);
    expect(sample.slice(0, 10).every(({ source }) => source === 'ours')).toBe(false);
    expect(take(1)).toEqual(sample);
    expect(take(2)).not.toEqual(sample);
    expect(() => mixSentences(sources, { seed: 1, count: 31 })).toThrow('ours: 30 sentences, 31 are needed');
  });

  it('says which share of each source was marked', () => {
    const sample = take(3);
    const ours = sample.flatMap(({ source }, index) => (source === 'ours' ? [index + 1] : []));
    expect(shareOfMarked(sample, ours.slice(0, 3))).toEqual({ ours: 30, theirs: 0 });
    expect(() => shareOfMarked(sample, [21])).toThrow('no sentence 21');
  });
});
