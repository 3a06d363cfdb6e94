import type { HttpCall } from '../../process/http/http-server.ts';
import type { PageKind } from '../../process/http/site-check.ts';

/** Pages of the debug listener that capabilities add. */
export interface DebugPages {
  /** A path; if it ends in `/`, all paths below it. */
  readonly root: string;
  /** The descriptions in the listener's index, by path. */
  readonly described: Readonly<Record<string, string>>;
  /** How the listener blocks requests from pages of other sites. */
  kindOf(path: string): PageKind;
  answer(call: HttpCall): Promise<void>;
  /** Called when the listener accepts connections. */
  opened?(): Promise<void>;
  /** Called when the listener waits for running answers and may be closed soon. */
  closing?(): void;
  closed?(): void;
}
