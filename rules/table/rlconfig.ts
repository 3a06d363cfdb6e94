import { NodeFlag } from '../bytes/rule-table-format.ts';
import { Unit, unitName } from '../model.ts';
import type { RuleNodes } from './rule-table-nodes.ts';

/**
 * The debug listener's `/rlconfig`: a line for each rule with a limit, parents before children, siblings sorted by
 * composite key. Lazy, so that a long list can be written in slices.
 */
export function* rlconfigLines(rules: RuleNodes): Generator<string, void> {
  /** From the root to the node last visited: the node, its full key, and which child comes next. */
  const open = [{ node: 0, path: '', nextChild: 0 }];
  for (let top = open.at(-1); top !== undefined; top = open.at(-1)) {
    if (top.nextChild === rules.childCount(top.node)) {
      open.pop();
      continue;
    }
    const node = rules.sortedChild(top.node, top.nextChild++);
    const composite = rules.readComposite(node);
    const path = top.node === 0 ? composite : `${top.path}.${composite}`;
    if ((rules.flags(node) & NodeFlag.hasLimit) !== 0) yield ruleLine(rules, node, path);
    if (rules.childCount(node) > 0) open.push({ node, path, nextChild: 0 });
  }
}

function ruleLine(rules: RuleNodes, node: number, path: string): string {
  const flags = rules.flags(node);
  const unit = unitName(rules.unit(node)) ?? unitName(Unit.UNKNOWN);
  const shadowMode = (flags & NodeFlag.shadowMode) !== 0;
  const quotaMode = (flags & NodeFlag.quotaMode) !== 0;
  const limit = `unit=${unit} requests_per_unit=${rules.requestsPerUnit(node)}`;
  return `${path}: ${limit}, shadow_mode: ${shadowMode}, quota_mode: ${quotaMode}`;
}
