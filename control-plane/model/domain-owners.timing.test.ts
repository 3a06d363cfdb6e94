import { expect, it } from 'vitest';
import { patternMatches } from '../../rules/model.ts';
import { cpuMs } from '../../test/support/cpu-time.ts';
import { parseDomainOwners } from './domain-owners.ts';

it.each(['#', '#-*', '*-#', '*-#-*', 'a*-#-*z'])(
  'many entries of the form %s need not be asked one by one',
  (form) => {
    const matches = Array.from({ length: 2_000 }, (_, index) => form.replace('#', `team-${index}`));
    const domains = matches.map((match) => match.replaceAll('*', 'x'));
    const text = matches.map((match, index) => `${match}=ns-${index}`).join(';');
    let found = 0;
    const atOnce = cpuMs(() => {
      const parsed = parseDomainOwners(text, 'open');
      if (!parsed.ok) throw new Error(parsed.errors.join());
      const { ownersOf } = parsed.owners;
      for (const domain of domains) found += Number(ownersOf(domain) !== undefined);
    });
    const oneByOne = cpuMs(() => {
      const firstFor = (asked: string) => matches.findIndex((match) => patternMatches(match, asked));
      for (const [at, match] of matches.entries()) found += Number(firstFor(match) === at);
      for (const domain of domains) found += Number(firstFor(domain) !== -1);
    });
    expect(found).toBe(6_000);
    expect(atOnce).toBeLessThan(oneByOne / 3);
  },
);
