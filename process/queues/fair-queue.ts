/** Members that wait for the same kind of turn. Groups take turns, and so do the members of a group. */
export class FairQueue<Member extends { readonly group: string }> {
  /** Members by group. Both are in the order of their turns. */
  readonly #groups = new Map<string, Set<Member>>();
  size = 0;

  has(member: Member): boolean {
    return this.#groups.get(member.group)?.has(member) === true;
  }

  add(member: Member): void {
    const group = this.#groups.get(member.group);
    if (group === undefined) this.#groups.set(member.group, new Set([member]));
    else group.add(member);
    this.size += 1;
  }

  /** Removes a member, and returns whether it was there. */
  remove(member: Member): boolean {
    const group = this.#groups.get(member.group);
    if (group?.delete(member) !== true) return false;
    this.size -= 1;
    if (group.size === 0) this.#groups.delete(member.group);
    return true;
  }

  /** The groups by name, each with its members, the one that has waited longest first. */
  groups(): Iterable<readonly [name: string, members: ReadonlySet<Member>]> {
    return this.#groups;
  }

  *[Symbol.iterator](): Iterator<Member> {
    for (const group of this.#groups.values()) yield* group;
  }

  /** Removes and returns the member whose turn it is, among the groups that fit. Undefined: none waits. */
  next(fits: (name: string) => boolean = () => true): Member | undefined {
    for (const [name, group] of this.#groups) {
      if (!fits(name)) continue;
      for (const member of group) {
        this.remove(member);
        // The group moves to the end.
        if (this.#groups.delete(name)) this.#groups.set(name, group);
        return member;
      }
    }
    return undefined;
  }

  /** Removes and returns the first member of the largest group. Undefined: none waits. */
  shed(): Member | undefined {
    let largest: Set<Member> | undefined;
    for (const group of this.#groups.values()) if (group.size > (largest?.size ?? 0)) largest = group;
    const [first] = largest ?? [];
    if (first !== undefined) this.remove(first);
    return first;
  }
}
