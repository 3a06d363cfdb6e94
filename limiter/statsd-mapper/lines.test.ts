import { expect, it } from 'vitest';
import { loggedText } from '../../test/support/logged-text.ts';
import { lines } from './lines.ts';

it('logs what has no effect in a mapper file', () => {
  expect(
    loggedText((log) => lines.mapperWarning(log, { warning: 'map.yaml:1:2: buf_cap has no effect' })),
  ).toEqual(['level=warning msg="PROMETHEUS_MAPPER_YAML: map.yaml:1:2: buf_cap has no effect"']);
});
