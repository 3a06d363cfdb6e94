import { describe, expect, it } from 'vitest';
import { readChartValues } from '../../scripts/chart-values.ts';

describe('commented values', () => {
  it('become a closed schema with descriptions, types and defaults', () => {
    const { schema } = readChartValues('# How many.\ncount: 3\nimage:\n  # Its name.\n  name: weir\n');
    expect(schema).toEqual({
      $schema: 'http://json-schema.org/draft-07/schema#',
      type: 'object',
      properties: {
        count: { description: 'How many.', type: 'integer', default: 3 },
        image: {
          type: 'object',
          properties: { name: { description: 'Its name.', type: 'string', default: 'weir' } },
          required: ['name'],
          additionalProperties: false,
        },
      },
      required: ['count', 'image'],
      additionalProperties: false,
    });
  });

  it('are listed in their order, by path', () => {
    const text = '# First.\nb: ""\na:\n  # Second,\n  # of two lines.\n  c: [x]\n';
    expect(readChartValues(text).values).toEqual([
      { path: 'b', description: 'First.', default: '' },
      { path: 'a.c', description: 'Second, of two lines.', default: ['x'] },
    ]);
  });

  it('take words of the schema from @schema, over what the default says', () => {
    const text = '# Threads.\n# @schema {"type": ["integer", "string"], "minimum": 1}\nworkers: 1\n';
    expect(readChartValues(text).schema['properties']).toEqual({
      workers: { description: 'Threads.', type: ['integer', 'string'], default: 1, minimum: 1 },
    });
  });

  it('leave an object open that @free marks', () => {
    const text = '# Any.\n# @free {"additionalProperties": {"type": "string"}}\nlabels: {}\n';
    expect(readChartValues(text).schema['properties']).toEqual({
      labels: {
        description: 'Any.',
        type: 'object',
        default: {},
        additionalProperties: { type: 'string' },
      },
    });
  });

  it('may be null if their default is empty, or any name may stand in them', () => {
    const free = '# Any.\n# @free\nfree:\n  # One.\n  one: 1\n';
    const empty = '# Text.\ntext: ""\n# List.\nlist: []\n# Map.\n# @free\nmap: {}\n';
    expect(readChartValues(`${empty}${free}# On.\non: false\n`).schema['required']).toEqual(['on']);
  });

  it('do not take a paragraph above a blank line for a description', () => {
    const { values } = readChartValues('# The head of the file.\n\n# About a.\na: true\n');
    expect(values).toEqual([{ path: 'a', description: 'About a.', default: true }]);
  });

  it.each([
    ['a:\n  b: 1\n', 'a.b: no comment says what it is'],
    ['# Any.\na: {}\n', 'a: an object with any names needs @free'],
    ['# None.\na: null\n', 'a default of null has no type'],
    ['- 1\n', 'values.yaml is no map'],
  ])('are rejected: %j', (text, message) => {
    expect(() => readChartValues(text)).toThrow(message);
  });
});
