import type { ConfigObject } from '../model/config-object.ts';
import type { ConfigStatus } from '../model/config-status.ts';
import type { Decision } from '../model/decision.ts';
import type { ReplicaReport } from '../model/limiter-report.ts';

/** What `/snapshot` shows, asked for at every request. Nothing that it gives is changed afterwards. */
export interface ControlPlaneView {
  /** Name of this replica. */
  readonly replica: string;
  /** The replica that leads, as far as this one knows. */
  leader(): string | undefined;
  /** What is served; undefined before the first complete list. */
  decision(): Decision | undefined;
  /** Of all living replicas, this one included. */
  reports(): readonly ReplicaReport[];
  /** The newest status that is known of the object. */
  statusOf(object: ConfigObject): ConfigStatus | undefined;
}
