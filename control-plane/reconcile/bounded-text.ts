/** The first few of many, and how many there are in all. */
export interface FirstFew<T> {
  items: readonly T[];
  count: number;
}

/** `a, b and 12 more`. */
export function listed({ items, count }: FirstFew<string>): string {
  const more = count - items.length;
  return more > 0 ? `${items.join(', ')} and ${more} more` : items.join(', ');
}

/** At most `maxChars` UTF-16 units; what is cut off is marked by `...`, and half a character is never left. */
export function shortened(text: string, maxChars: number): string {
  return text.length <= maxChars ? text : `${text.slice(0, maxChars - 3).toWellFormed()}...`;
}

/** Texts between `; `, as many as fit; then `and 12 more`. `count` is how many there are in all. */
export function joinedWithin({ items, count }: FirstFew<string>, maxChars: number): string {
  const room = maxChars - longestRest.length;
  let joined = shortened(items[0] ?? '', room);
  let used = 1;
  while (used < items.length && joined.length + 2 + items[used]!.length <= room)
    joined += `; ${items[used++]}`;
  return count > used ? `${joined}; and ${count - used} more` : joined;
}

const longestRest = '; and 9007199254740991 more';
