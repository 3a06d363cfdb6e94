/**
 * Words that documents do not use, by kind, each with the word to write instead. A pattern matches whole words, in any case.
 * docs/glossary.md defines the words of the right column.
 */
export type Term = readonly [pattern: string, instead: string];

/** Words that belong to no technical text. */
export const retired: readonly Term[] = [
  ['told|tells?|telling', 'report, show or notify'],
  ['untold', 'not reported'],
  ['whoever', 'the person or caller who'],
  ['likewise', 'also'],
  ['at hand', 'available'],
  ['mend(?:s|ed|ing)?', 'fix'],
  ['calm(?:s|ed|ing)?', 'quiet, or name the circuit breaker'],
  ['offices?', 'the name of the thing'],
  ['spelt', 'spelled'],
  ['dear', 'expensive'],
  ['lies over|lie over', 'overrides'],
];

/** Right in some sentences only. */
export const bySense: readonly Term[] = [
  ['nobody', 'no caller'],
  ['kept', 'stored, unless it is about retention'],
  ['stands?', 'is, unless it stands for something'],
  ['comes?', 'is, unless with "with" or "from"'],
  ['usual(?:ly)?', 'default, or normally'],
  ['meant', 'intended'],
  ['of which', 'a sentence of its own'],
  ['as it is', 'unchanged'],
  ['lengths?', 'window or duration, unless something has a size'],
  ['places?', 'counter, location, or a sentence without it'],
];

/** One word for one thing. */
export const terminology: readonly Term[] = [
  ['over-limit', 'over limit'],
  ['ratelimit service', 'rate limit service'],
  ['rate limiting service', 'rate limit service'],
  ['turned? down|turns down|turning down', 'reject'],
  ['keeps? out|kept out', 'reject'],
  [
    '(?<!connections? (?:is |are )?|Weir-)\\brefus(?:es?|ed|ing|als?)\\b(?! connection|\\.md)',
    'over limit for a request; reject for rules, objects and calls; deny for a right',
  ],
  // `settle` is the name of an entry.
  ['(?<!reservation_id and |")\\b(?:settle(?:s|d|ment)?|settling)\\b', 'commit'],
  ['acknowledge?ments?', 'ACK, or answer'],
  ['verdicts?', 'decision or outcome'],
  ['(?<!=|multi-getting )\\bmemcache\\b(?!_)', 'memcached'],
  ['time outs?', 'timeout'],
  ['back-end(s?)', 'backend$1'],
  ['config map(s?)', 'ConfigMap$1'],
  ['web[ -]hook(s?)', 'webhook$1'],
];

/** British spelling. */
export const spelling: readonly Term[] = [
  ['behaviour(s?)', 'behavior$1'],
  ['colour(s?|ed|ing)?', 'color$1'],
  ['favour(s?|ed|ite)?', 'favor$1'],
  ['neighbour(s?|ing)?', 'neighbor$1'],
  ['honour(s?|ed|ing)?', 'honor$1'],
  ['labour', 'labor'],
  ['licence(s?)', 'license$1'],
  ['defence', 'defense'],
  ['centre(s?)', 'center$1'],
  ['grey', 'gray'],
  ['catalogue', 'catalog'],
  ['dialogue(s?)', 'dialog$1'],
  ['cancell(ed|ing)', 'cancel$1'],
  ['labell(ed|ing)', 'label$1'],
  ['travell(ed|ing)', 'travel$1'],
  ['modell(ed|ing)', 'model$1'],
  ['signall(ed|ing)', 'signal$1'],
  ['fulfil', 'fulfill'],
  ['whilst', 'while'],
  ['towards', 'toward'],
  ['afterwards', 'afterward'],
  ['learnt', 'learned'],
  ['burnt', 'burned'],
  ['analys(e|es|ed|ing)', 'analyz$1'],
  ['recognis(e|es|ed|ing)', 'recogniz$1'],
  ['initialis(e|es|ed|ing)', 'initializ$1'],
  ['organis(e|es|ed|ing|ation|ations)', 'organiz$1'],
  ['normalis(e|es|ed|ing|ation)', 'normaliz$1'],
  ['serialis(e|es|ed|ing|ation)', 'serializ$1'],
  ['synchronis(e|es|ed|ing|ation)', 'synchroniz$1'],
  ['optimis(e|es|ed|ing|ation)', 'optimiz$1'],
  ['summaris(e|es|ed|ing)', 'summariz$1'],
  ['authoris(e|es|ed|ing|ation)', 'authoriz$1'],
  ['specialis(e|es|ed|ing)', 'specializ$1'],
  ['customis(e|es|ed|ing|ation)', 'customiz$1'],
  ['minimis(e|es|ed|ing)', 'minimiz$1'],
  ['maximis(e|es|ed|ing)', 'maximiz$1'],
  ['prioritis(e|es|ed|ing)', 'prioritiz$1'],
  ['randomis(e|es|ed|ing)', 'randomiz$1'],
  ['([0-9]) %(?=\\W|$)', '$1%'],
];
