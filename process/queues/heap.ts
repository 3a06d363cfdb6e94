const isNotNoted = (): void => {};

/**
 * A binary heap. Its first member is known at once, and to add, move or remove a member costs a few steps: the logarithm of their number.
 * No member goes before the one above it, at (n - 1) / 2.
 */
export class Heap<Member> {
  readonly #members: Member[] = [];
  readonly #goesBefore: (one: Member, other: Member) => boolean;
  readonly #placed: (member: Member, place: number) => void;

  /** `placed` is called with each place that a member gets. Only with its place can a member other than the first be moved or removed. */
  constructor(
    goesBefore: (one: Member, other: Member) => boolean,
    placed: (member: Member, place: number) => void = isNotNoted,
  ) {
    this.#goesBefore = goesBefore;
    this.#placed = placed;
  }

  get size(): number {
    return this.#members.length;
  }

  get first(): Member | undefined {
    return this.#members[0];
  }

  /** The members in no order. */
  get members(): readonly Member[] {
    return this.#members;
  }

  add(member: Member): void {
    this.#members.push(member);
    this.#rise(this.#members.length - 1);
  }

  /** Removes the member with this place. Defaults to the first one. */
  remove(place = 0): void {
    const last = this.#members.pop() as Member;
    if (place === this.#members.length) return;
    this.#members[place] = last;
    this.moved(place);
  }

  /** Called when the member with this place may go before others, or they before it. */
  moved(place = 0): void {
    this.#sink(this.#rise(place));
  }

  #rise(from: number): number {
    const members = this.#members;
    const member = members[from] as Member;
    let place = from;
    while (place > 0) {
      const above = (place - 1) >> 1;
      const other = members[above] as Member;
      if (!this.#goesBefore(member, other)) break;
      this.#put(other, place);
      place = above;
    }
    this.#put(member, place);
    return place;
  }

  #sink(from: number): void {
    const members = this.#members;
    const member = members[from] as Member;
    let place = from;
    for (;;) {
      let below = 2 * place + 1;
      if (below >= members.length) break;
      const right = below + 1;
      if (right < members.length && this.#goesBefore(members[right] as Member, members[below] as Member))
        below = right;
      const other = members[below] as Member;
      if (!this.#goesBefore(other, member)) break;
      this.#put(other, place);
      place = below;
    }
    if (place !== from) this.#put(member, place);
  }

  #put(member: Member, place: number): void {
    this.#members[place] = member;
    this.#placed(member, place);
  }
}
