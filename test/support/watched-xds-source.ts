import { onTestFinished } from 'vitest';
import { XdsConfigSource, type XdsConfigSourceOptions } from '../../limiter/config-source/xds/xds-source.ts';
import { systemClock, systemTimers } from '../../process/time/clock.ts';

/** Waits of seven seconds, one like the other. */
export const steadyBackoff = {
  ...{ initialMs: 7_000, maxMs: 9_000, factor: 1, jitter: false, exactFirst: false },
  random: () => 0,
};

/** An xDS source and what it reported, an entry each; it ends with the test. */
export class WatchedXdsSource {
  readonly source: XdsConfigSource;
  readonly reported: string[] = [];
  /** Lines of `/rlconfig`, in short: `d.k 10`. */
  rules: string[] = [];
  /** The rules of each warning, of one review after the other. */
  readonly warned: string[][] = [];

  constructor(options: Partial<XdsConfigSourceOptions> & { port: number }) {
    const { port, ...rest } = options;
    this.source = new XdsConfigSource({
      target: `127.0.0.1:${port}`,
      headers: [],
      tls: undefined,
      tokenFile: undefined,
      maxMessageBytes: 1 << 20,
      maxBytes: { bytes: 1 << 20, setting: 'XDS_CLIENT_MAX_TOTAL_BYTES' },
      keepaliveMs: 0,
      node: { id: 'node-1', metadata: { pod: 'pod-1' }, version: '1.2.3' },
      incremental: false,
      checks: { mergeDomains: false },
      review: { counterKeys: 'unambiguous', sanitizeDescriptorMetricDots: false },
      connectRetryMs: 20,
      backoff: { initialMs: 20, maxMs: 20, factor: 1, jitter: false, exactFirst: false, random: () => 0 },
      clock: systemClock,
      timers: systemTimers,
      listener: {
        connected: () => this.reported.push('connected'),
        attemptFailed: (reason) => this.reported.push(`failed: ${reason}`),
        tlsFilesRejected: (reason) => this.reported.push(`files: ${reason}`),
        notIncremental: () => this.reported.push('not incremental'),
        noRulesYet: () => this.reported.push('no rules yet'),
      },
      ...rest,
    });
    onTestFinished(() => this.source.close());
  }

  start(): Promise<void> {
    return this.source.start({
      loaded: ({ table, domains, rules, sources }) => {
        this.rules = [...table.rlconfigLines()].map((line) =>
          line.replace(/: .*requests_per_unit=(\d+),.*/, ' $1'),
        );
        this.reported.push(`loaded: ${sources} sources, ${domains} domains, ${rules} rules`);
      },
      overrides: async (overrides) => {
        this.reported.push(`over rules: ${overrides.map(({ name }) => name).join()}`);
      },
      failed: (errors) =>
        this.reported.push(`refused: ${errors.map(({ source, text }) => `${source}: ${text}`).join()}`),
      unchanged: () => {},
      reviewed: (review) => {
        if ('problem' in review) {
          this.reported.push(`not reviewed: ${review.problem}`);
          return;
        }
        this.warned.push(review.warnings.map(({ source, rule }) => `${source} ${rule}`));
        if (review.collisions !== undefined) this.reported.push(`could meet: ${review.collisions.first}`);
      },
      unreachable: (reason) => this.reported.push(`lost: ${reason}`),
      reachable: () => this.reported.push('found'),
    });
  }

  static async start(options: Partial<XdsConfigSourceOptions> & { port: number }): Promise<WatchedXdsSource> {
    const watched = new WatchedXdsSource(options);
    await watched.start();
    return watched;
  }
}
