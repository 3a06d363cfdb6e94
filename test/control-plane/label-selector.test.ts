import fc from 'fast-check';
import { beforeAll, expect, it } from 'vitest';
import { ApiError } from '../../control-plane/kubernetes/api.ts';
import { type Labels, parseLabelSelector } from '../../control-plane/source/label-selector.ts';
import { describeWithApiServer } from '../support/describe-with-api-server.ts';
import { clientOf } from '../support/kubernetes-client.ts';
import { caseCount } from '../support/property-cases.ts';

const namespace = 'selected';
const path = `/api/v1/namespaces/${namespace}/configmaps`;

/** By the name of a ConfigMap. */
const labeled: Readonly<Record<string, Labels>> = {
  none: {},
  a: { a: 'x' },
  empty: { a: '', b: 'x' },
  both: { a: 'x', b: 'y', 'example.com/a': 'z' },
  words: { a: 'in', in: 'notin', notin: '' },
  small: { a: '3', b: '7' },
  large: { a: '9223372036854775807', b: '4' },
};

const key = fc.constantFrom('a', 'b', 'example.com/a', 'in', 'notin', 'A_b.c', '-a', 'a/b/c', 'E.x/a');
const value = fc.constantFrom('x', 'y', 'z', '', 'in', 'notin', '3', '+4', '-7', 'x-', '9223372036854775808');
const blank = fc.constantFrom('', '', '', ' ', '  ', '\t');
const joined = (...parts: fc.Arbitrary<string>[]): fc.Arbitrary<string> =>
  fc.tuple(...parts).map((texts) => texts.join(''));
const sign = fc.constantFrom('=', '==', '!=', '>', '<');
const values = fc
  .tuple(fc.array(joined(blank, value, blank), { maxLength: 3 }))
  .map(([list]) => `(${list.join(',')})`);
const requirement = fc.oneof(
  joined(blank, key, blank),
  joined(blank, fc.constant('!'), blank, key, blank),
  joined(blank, key, blank, sign, blank, value, blank),
  joined(blank, key, fc.constantFrom(' in ', ' notin ', ' in', '\tin '), values, blank),
);
const wellFormed = fc.array(requirement, { maxLength: 3 }).map((list) => list.join(','));
const anything = fc
  .array(fc.constantFrom(' ', ',', '=', '!', '(', ')', '<', '>', 'a', 'b', 'in', 'notin', 'x', '3', '-'), {
    maxLength: 9,
  })
  .map((parts) => parts.join(''));

describeWithApiServer('a label selector', (api) => {
  beforeAll(() => {
    api().createNamespace(namespace);
    const items = Object.entries(labeled).map(([name, labels]) => ({
      apiVersion: 'v1',
      kind: 'ConfigMap',
      metadata: { name, namespace, labels },
    }));
    const input = JSON.stringify({ apiVersion: 'v1', kind: 'List', items });
    api().mustKubectl(['create', '-f', '-'], { input });
  });

  it('is taken, and selects what it selects, as the API server has it', async () => {
    const client = clientOf(api());
    const ofServer = async (labelSelector: string): Promise<string[] | 'refused'> => {
      try {
        const list = await client.request<{ items: { metadata: { name: string } }[] }>({
          path,
          query: { labelSelector },
        });
        return list.items.map(({ metadata }) => metadata.name).filter((name) => name in labeled);
      } catch (error) {
        if (error instanceof ApiError && error.status === 400) return 'refused';
        throw error;
      }
    };
    const ofOurs = (text: string): string[] | 'refused' => {
      const parsed = parseLabelSelector(text);
      if ('problem' in parsed) return 'refused';
      return Object.keys(labeled)
        .filter((name) => parsed.selects(labeled[name]!))
        .sort();
    };
    const same = async (text: string): Promise<void> => {
      expect([text, ofOurs(text)]).toEqual([text, await ofServer(text)]);
    };
    await fc.assert(fc.asyncProperty(fc.oneof(wellFormed, anything), same), { numRuns: caseCount(1_000) });
  });
});
