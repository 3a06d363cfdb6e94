import { BaseSequencer, type TestSpecification } from 'vitest/node';

/** The files that take longest, mostly waiting: begun last, they would wait alone at the end of a run. */
export const slowFiles = [
  'test/control-plane/access-denied.test.ts',
  'test/control-plane/domain-owners.test.ts',
  'test/attacks/attacks.timing.test.ts',
  'test/chart/api-server.test.ts',
  'test/truth/truth.timing.test.ts',
  'test/control-plane/schema-skew.test.ts',
  'test/package/package.test.ts',
  'test/budgets/budgets.timing.test.ts',
  'test/package/release.test.ts',
  'test/e2e/quota-service.test.ts',
  'test/image/image.test.ts',
  'test/e2e/webhooks.test.ts',
  'test/e2e/adopt-first-pages.test.ts',
  'test/e2e/control-plane.test.ts',
  'test/console/limiter.test.ts',
  'test/control-plane/overrides.test.ts',
  'test/soak/soak.timing.test.ts',
  'test/control-plane/own-writes.test.ts',
  'test/e2e/lifecycle.test.ts',
  'test/fuzz/fuzz.test.ts',
  'test/conformance/envoy-quota.test.ts',
  'test/conformance/h2spec.test.ts',
  'test/control-plane/source-kubernetes.test.ts',
];

/**
 * Runs them first of their project, and all others in vitest's own order. Projects stay one after the other: files that share a
 * process lose it when a file of another project comes between them.
 */
export class SlowFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const sorted = await super.sort(files);
    const rank = ({ moduleId }: TestSpecification): number => {
      const index = slowFiles.findIndex((path) => moduleId.endsWith(`/${path}`));
      return index < 0 ? slowFiles.length : index;
    };
    const projects = Map.groupBy(sorted, ({ project }) => project);
    return [...projects.values()].flatMap((own) => own.sort((a, b) => rank(a) - rank(b)));
  }
}
