/**
 * Words that documents do not use, by kind, each with the word to write instead. A pattern matches whole words, in any case.
 * docs/glossary.md defines the words of the right column.
 */
export type Term = readonly [pattern: string, instead: string];

/** Words that no technical text should contain. */
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

/** Words that are correct only in some sentences. */
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

/** Synonyms of words of the glossary. */
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

/** American words that look like British ones: stems, and the beginning of a longer word if `\w*` is before it. */
const stems = {
  is: '\\w*(?:w|ra|pra|no|po|prom|prem|comprom|adv|rev|superv|dev|improv|telev|exerc|prec|conc|expert|enterpr|surpr|compr|appr|repr|disgu|franch|merchand|parad|advert|exc|dem|inc|desp|chast|cru|bru|lia|mala|treat|torto|turquo|pract)|[rvwm]|ar|gu|upr|sunr',
  our: '\\w*(?:h|cont)|y|f|p|t|s|fl|dev|sc|det|glam|vel|param|outp|downp',
  ll: '\\w*(?:[cf]a|sma|pa|sta|wa|fi|bi|ki|dri|ski|chi|spi|ti|wi|thri|pu|fu|du|cu|mu|nu|po|tro|tho|spe|pe|sme|she|swe|dwe|qui|ye|exce|rebe|squa)|(?:un|en|sc|st|pay)?ro|(?:re|best)?se|te|ta|fe|i|to|gri|ga|ba|hu',
};

/** Words with these endings, except those of `stems`. */
function ending(name: keyof typeof stems, ends: string, instead: string): Term {
  const pattern = `(?<![-\\w.])(?!(?:${stems[name]})${name}${ends}\\b)(\\w+)${name}${ends}\\b(?!-)`;
  return [pattern, `$2${instead}$3`];
}

/** British spelling. */
export const spelling: readonly Term[] = [
  ending('is', '(e|ed|es|ing|er|ers|ation|ations)', 'iz'),
  ending('our', '(s|ed|ing|al|able|ably|ally|ite|ites|er|ers|ful|less|ly|hood)?', 'or'),
  ending('ll', '(ed|ing|er|ers)', 'l'),
  ['(\\w*)(analy|paraly|cataly)s(e|ed|es|ing|er|ers)', '$1$2z$3'],
  ['(\\w*)licence(s?|d)', '$1license$2'],
  ['(defen|offen|preten)ce(s?)', '$1se$2'],
  ['practis(e|ed|es|ing)', 'practic$1'],
  ['(\\w*)centre(s?|d)', '$1center$2'],
  ['(\\w*)(met|lit|theat|fib|calib|meag|somb)re(s?)', '$1$2er$3'],
  ['grey(s?|ed)', 'gray$1'],
  ['(catalog|dialog|analog)ue(s?|d)', '$1$2'],
  ['programme(s?)', 'program$1'],
  ['judgement(s?)', 'judgment$1'],
  ['artefact(s?)', 'artifact$1'],
  ['queueing', 'queuing'],
  ['ageing', 'aging'],
  ['(fulfi|insti|disti|enro)l(s?|ment|ments)', '$1ll$2'],
  ['(skil|wil)ful(ly)?', '$1lful$2'],
  ['(focus|bias|target|benefit)(?:s|t)(ed|ing)', '$1$2'],
  ['amongst', 'among'],
  ['whilst', 'while'],
  ['towards', 'toward'],
  ['afterwards', 'afterward'],
  ['learnt', 'learned'],
  ['burnt', 'burned'],
  ['dreamt', 'dreamed'],
  ['sceptic(al)?', 'skeptic$1'],
  ['mould(s?|ed|ing)', 'mold$1'],
  ['([0-9]) %(?=\\W|$)', '$1%'],
];
