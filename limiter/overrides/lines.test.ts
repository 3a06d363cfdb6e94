import { expect, it } from 'vitest';
import { loggedText } from '../../test/support/logged-text.ts';
import { lines } from './lines.ts';

it('overrides that come and go are logged', () => {
  expect(
    loggedText((log) => {
      lines.overridesValidAgain(log, { overrides: 2 });
      lines.overridesLoaded(log, { overrides: 3 });
      lines.overridesRejected(log, { problems: ['a.yaml:1:1: domain: is required'], total: 1 });
      lines.overridesGivenBack(log, { overrides: 4 });
    }),
  ).toEqual([
    'level=warning msg="The files of overrides are valid again" overrides=2',
    'level=info msg="Overrides of files are in force" overrides=3',
    'level=error msg="The files of overrides cannot be used: the last valid ones stay in force" problems="[\\"a.yaml:1:1: domain: is required\\"]" total=1',
    'level=warning msg="The store came back without overrides: wrote those that this limiter knew" overrides=4',
  ]);
});
