import { expect, it } from 'vitest';
import { loggedText } from '../../test/support/logged-text.ts';
import { lines } from './lines.ts';

it('profiles, and what other proxies ask by them, are logged', () => {
  expect(
    loggedText((log) => {
      lines.profilesLoaded(log, { path: '/etc/profiles.yaml', profiles: 2 }, false);
      lines.profilesRejected(log, { reason: '/etc/profiles.yaml:3:5: domain: is missing' });
      lines.profilesLoaded(log, { path: '/etc/profiles.yaml', profiles: 3 }, true);
      const peer = '10.0.0.1:4711';
      lines.headerMissing(log, { profile: 'shop', header: 'X-Forwarded-For', peer, times: 7 });
      lines.profileUnknown(log, { peer, reason: 'there is no profile "shpo", there are shop', times: 3 });
      lines.forwardedUndecided(log, { profile: 'shop', answer: 'allow', reason: 'it is away', times: 2 });
    }),
  ).toEqual([
    'level=info msg="Profiles are in force" path=/etc/profiles.yaml profiles=2',
    'level=error msg="The profiles file cannot be used: the last valid one stays in force, if there was one" reason="/etc/profiles.yaml:3:5: domain: is missing"',
    'level=warning msg="Profiles are in force" path=/etc/profiles.yaml profiles=3',
    'level=warning msg="A proxy does not send a header that its profile requires" profile=shop header=X-Forwarded-For peer="10.0.0.1:4711" times=7',
    'level=warning msg="A proxy uses a profile that it may not use or that does not exist: its requests are not limited" peer="10.0.0.1:4711" reason="there is no profile \\"shpo\\", there are shop" times=3',
    'level=warning msg="Cannot decide a request of a proxy: onError of the profile decides" profile=shop answer=allow reason="it is away" times=2',
  ]);
});
