import { defineFlags } from '../support/script-flags.ts';

export const soakFlags = defineFlags({
  help: `Usage: npm run soak -- [--minutes <n>] [--seed <n>]

Puts a limiter under load, judges every answer, and looks at its memory. Needs redis-server.

  --minutes <n>  1 to 1440 (default 10); below a minute caches still fill, and memory says nothing
  --seed <n>     of the order of calls and connections, 1 to 2147483647 (default 7)

A line at each fifth of the time: answers so far, calls that failed while Redis was away (it is ended once, at two
fifths), wrong answers, and live memory in bytes after a garbage collection. At the end the whole report as JSON. Then
100,000 values are refused once each, and a line of JSON says how many keys Redis held before and holds once their windows
are over. Then what was wrong, a line each.
Exit status: 0 when nothing was wrong, 1 when something was, 2 for a wrong command line or no redis-server.
`,
  rows: {
    minutes: {
      type: 'number',
      min: 1,
      max: 1440,
      default: 10,
      because: 'in less, caches still fill, and memory says nothing',
    },
    seed: { type: 'number', min: 1, max: 2 ** 31 - 1, whole: true, default: 7 },
  },
});
