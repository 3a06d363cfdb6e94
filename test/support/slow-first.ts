import { BaseSequencer, type TestSpecification } from 'vitest/node';

/** The files that take longest, mostly waiting: begun last, they would wait alone at the end of a run. */
export const slowFiles = [
  'test/control-plane/domain-owners.test.ts',
  'test/chart/api-server.test.ts',
  'test/package/release.test.ts',
  'test/control-plane/schema-skew.test.ts',
  'test/budgets/budgets.timing.test.ts',
  'test/attacks/attacks.timing.test.ts',
  'test/truth/truth.timing.test.ts',
  'test/soak/soak.timing.test.ts',
  'test/control-plane/source-kubernetes.test.ts',
  'test/control-plane/access-denied.test.ts',
  'test/control-plane/overrides.test.ts',
  'test/faults/redis-killed.timing.test.ts',
];

/** Runs them first, and the others in vitest's own order. */
export class SlowFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const sorted = await super.sort(files);
    const rank = ({ moduleId }: TestSpecification): number => {
      const index = slowFiles.findIndex((path) => moduleId.endsWith(`/${path}`));
      return index < 0 ? slowFiles.length : index;
    };
    return sorted.sort((a, b) => rank(a) - rank(b));
  }
}
