import { describe, expect, it } from 'vitest';
import { allReady, objectsText, objectsValue, objectText } from './objects-section.ts';
import { shownFleet, shownObject, shownOverride } from './shown-objects.ts';

const time = '2026-11-22T12:00:00Z';

/** `Accepted=True Valid: words`. */
function condition(text: string): object {
  const [, type, status, reason, message] = /^(\w+)=(\w+) (\w+)(?:: (.*))?$/s.exec(text)!;
  return { type, status, reason, message: message ?? '', lastTransitionTime: time };
}

interface ObjectOptions {
  name: string;
  generation?: number;
  observed?: number;
  spec?: object;
  status?: object;
}

function object(
  { name, generation = 1, observed = 1, spec, status }: ObjectOptions,
  ...conditionTexts: string[]
): unknown {
  const conditions = conditionTexts.map(condition);
  return {
    metadata: { namespace: 'shop', name, generation, creationTimestamp: '2026-11-01T00:00:00Z' },
    spec: { domain: name, ...spec },
    ...(conditionTexts.length > 0 && { status: { observedGeneration: observed, conditions, ...status } }),
  };
}

const good = ['Accepted=True Valid', 'Programmed=True AllLimiters', 'Ready=True Ready'];
const pending = "not in force on every limiter of fleet 'default'; waiting for lim-0 since 12:00:01Z";
const whyOf = (value: unknown): string | undefined => {
  const { why } = shownObject(value);
  return why && `${why.type}=${why.status} ${why.reason}`;
};

describe('an object', () => {
  const cases: [string, unknown, string | undefined][] = [
    ['is ready when its status says so', object({ name: 'a' }, ...good), undefined],
    [
      'is not ready for the first reason, and not for what follows from it',
      object({ name: 'a' }, 'Accepted=False Invalid', 'Programmed=False NotAccepted', 'Ready=False Invalid'),
      'Accepted=False Invalid',
    ],
    [
      'is not ready when a newer control plane says so for a reason of its own',
      object({ name: 'a' }, 'Accepted=True Valid', 'Programmed=True AllLimiters', 'Ready=False Frozen'),
      'Ready=False Frozen',
    ],
    ['is not ready before anybody says so', object({ name: 'a' }), 'Ready=Unknown NoStatus'],
    [
      'is not ready while its status is of an older generation',
      object({ name: 'a', generation: 2 }, ...good),
      'Ready=Unknown NotObserved',
    ],
    [
      'is ready by an older status, which has no Ready',
      object({ name: 'a' }, ...good.slice(0, 2)),
      undefined,
    ],
    [
      'is read whatever its status is',
      { metadata: null, spec: 1, status: { conditions: {} } },
      'Ready=Unknown NoStatus',
    ],
  ];
  it.each(cases)('%s', (_, value, why) => {
    expect(whyOf(value)).toBe(why);
  });
});

describe('a fleet', () => {
  it.each([
    [1, undefined],
    [2, 'NotObserved'],
  ])('of generation %i with a status of generation 1 is not ready because of %s', (generation, reason) => {
    const conditions = [condition('Ready=True Ready')];
    const status = { observedGeneration: 1, conditions };
    const shown = shownFleet({ metadata: { namespace: 'weir-system', name: 'default', generation }, status });
    expect(shown.why?.reason).toBe(reason);
  });
});

describe('the report', () => {
  const fleet = shownFleet({
    metadata: { namespace: 'weir-system', name: 'default' },
    status: {
      limiters: '2/3',
      current: 1,
      refusing: [{ name: 'lim-2', message: 'bad' }],
      version: 'v7',
      conditions: [
        condition('Ready=False Refused: rejected by lim-2'),
        condition('Progressing=True Changing: v7 is being taken'),
      ],
    },
  });
  const waiting = object(
    { name: 'slow' },
    good[0]!,
    `Programmed=False Pending: ${pending}`,
    'Ready=False Pending',
  );

  it('has the fleets, what is not ready and why, and the sum', () => {
    const objects = [object({ name: 'a' }, ...good), waiting].map(shownObject);
    const facts = { fleets: [fleet], objects, overrides: [], stopped: [], namespace: 'shop' };
    expect(objectsText(facts, { wide: false })).toBe(`\
NAMESPACE     FLEET     LIMITERS   CURRENT   REFUSING   VERSION   READY   PROGRESSING   REASON    SINCE                  MESSAGE
weir-system   default   2/3        1         lim-2      v7        False   True          Refused   2026-11-22T12:00:00Z   rejected by lim-2; v7 is being taken

NAMESPACE   NAME   DOMAIN   FLEET     CONDITION          REASON    SINCE                  MESSAGE
shop        slow   slow     default   Programmed=False   Pending   2026-11-22T12:00:00Z   ${pending}

in namespace shop: 1 fleet, 0 ready, 1 not; 2 objects, 1 ready, 1 not
`);
    expect(objectsText(facts, { wide: true })).toContain('CLASS   GENERATION   SERVED   CONTROLLER');
    expect(allReady(facts)).toBe(false);
    expect(objectsValue(facts)).toMatchObject({
      fleets: [{ name: 'default', ready: false }],
      notReady: [{ name: 'slow', ready: false, conditions: [{ type: 'Accepted' }, {}, {}] }],
      objectCount: 2,
      readyCount: 1,
    });
  });

  it('is one line when all is ready, or nothing there', () => {
    const text = (...objects: unknown[]) =>
      objectsText(
        { fleets: [], overrides: [], stopped: [], objects: objects.map(shownObject), namespace: 'shop' },
        { wide: false },
      );
    expect(text(object({ name: 'a' }, ...good))).toBe('in namespace shop: 1 object, 1 ready\n');
    expect(text()).toBe('no RateLimitConfigs in namespace shop\n');
  });

  it('shows overrides that have not ended, first those that are not ready; one that has ended is no fault', () => {
    const reported = (name: string, ready: string, more: object = {}) =>
      shownOverride(
        object(
          { name, status: { match: `key=${name}`, effect: 'blocked', ...more } },
          ...(ready === 'True Ready' ? good : [`Accepted=${ready}`, `Ready=${ready}`]),
        ),
      );
    const over = reported('over', 'False Expired: it ended');
    const facts = { fleets: [], objects: [], stopped: [], namespace: 'shop' };
    const rows = [
      reported('a', 'True Ready', { endsAt: time }),
      over,
      reported('b', 'False Conflicted: an older one'),
    ];
    expect(objectsText({ ...facts, overrides: rows }, { wide: false })).toBe(`\
NAMESPACE   OVERRIDE   DOMAIN   FLEET     MATCH   EFFECT    ENDS                   READY   REASON       MESSAGE
shop        b          b        default   key=b   blocked   -                      False   Conflicted   an older one
shop        a          a        default   key=a   blocked   2026-11-22T12:00:00Z   True    -            -

2 overrides, 1 ready, 1 not; no RateLimitConfigs in namespace shop
`);
    expect(allReady({ ...facts, overrides: rows })).toBe(false);
    expect(allReady({ ...facts, overrides: [over] })).toBe(true);
    const stopped = [{ name: 'weir-system/weir-control-plane', since: time }];
    expect(allReady({ ...facts, overrides: [over], stopped })).toBe(false);
    const gone = [{ name: 'weir-system/weir-control-plane', since: null }];
    expect([stopped, gone].map((one) => objectText(over, one).split('\n').at(-2))).toEqual([
      `control plane weir-system/weir-control-plane has no leader since ${time}: statuses may be out of date`,
      'control plane weir-system/weir-control-plane has no Lease object: statuses may be out of date',
    ]);
    expect(objectsValue({ ...facts, overrides: rows })).toMatchObject({
      overrides: [
        { name: 'a', ready: true, endsAt: time },
        { name: 'b', ready: false },
      ],
    });
  });

  it('lets nothing of the cluster act on the terminal', () => {
    const evil = object({ name: 'a', spec: { domain: '\u001b[2J' } }, 'Accepted=False Invalid: a\nb\u009b');
    const text = objectsText(
      { fleets: [], overrides: [], stopped: [], objects: [shownObject(evil)], namespace: undefined },
      { wide: false },
    );
    expect(text).toContain('   \\u001b[2J   default   Accepted=False   Invalid   ');
    expect(text).toContain('   a\\nb\\u009b\n');
  });
});

describe('the report of one object', () => {
  it('has all conditions, those of other versions too, and what the status lacks', () => {
    const status = { servedGeneration: 1, controllerName: 'weir-system/weir' };
    const text = objectText(
      shownObject(object({ name: 'a', generation: 2, status }, ...good, 'Frozen=True Cold: x')),
    );
    expect(text).toBe(`\
NAMESPACE   NAME   CLASS   DOMAIN   FLEET     GENERATION   OBSERVED   SERVED   CONTROLLER
shop        a      weir    a        default   2            1          1        weir-system/weir

CONDITION    STATUS    REASON        SINCE                  MESSAGE
Ready        Unknown   NotObserved   -                      the control plane has not read generation 2; its status is of generation 1
Accepted     True      Valid         2026-11-22T12:00:00Z   -
Programmed   True      AllLimiters   2026-11-22T12:00:00Z   -
Ready        True      Ready         2026-11-22T12:00:00Z   -
Frozen       True      Cold          2026-11-22T12:00:00Z   x
`);
  });
});
