/** Finds names of domains, keys and fields that are similar to an unknown name. */

/** Returns the name without the characters that people omit or confuse. */
export function plainName(text: string): string {
  return text.toLowerCase().replace(/[-_. ]/g, '');
}

/** Returns whether they are equal except for up to two characters in one place: left out, doubled, wrong or swapped. */
export function isMistyped(a: string, b: string): boolean {
  const [least, most] = [Math.min(a.length, b.length), Math.max(a.length, b.length)];
  if (most - least > 2 || (a !== b && least < 3)) return false;
  const begin = commonLength(a, b);
  let end = 0;
  while (end < least - begin && a.at(-1 - end) === b.at(-1 - end)) end++;
  return most - begin - end <= 2;
}

export function commonLength(a: string, b: string): number {
  let length = 0;
  while (length < a.length && length < 1000 && a[length] === b[length]) length++;
  return length;
}

/** The known name that a misspelled one is nearest to, if any is near. */
export function meantBy(written: string, known: readonly string[]): string | undefined {
  const given = plainName(written.slice(0, 80));
  return (
    known.find((one) => plainName(one) === given) ?? known.find((one) => isMistyped(plainName(one), given))
  );
}

/** Returns a message such as `no rules have the domain "shpo"; did you mean "shop"?` */
export function unknownDomainWords(domain: string, known: readonly string[]): string {
  return `no rules have the domain ${JSON.stringify(domain.slice(0, 100))}${meantHint(domain, known)}`;
}

/** Returns `; did you mean "shop"?`, or an empty text. */
export function meantHint(written: string, known: readonly string[]): string {
  const meant = meantBy(written, known);
  return meant === undefined ? '' : `; did you mean ${JSON.stringify(meant)}?`;
}
