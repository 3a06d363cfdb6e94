import type { HttpCall } from '../../process/http/http-server.ts';
import type { PageKind } from '../../process/http/site-check.ts';

/** Pages of the debug listener that are none of its own. */
export interface DebugPages {
  /** A path; with `/` at its end, all that begins so. */
  readonly root: string;
  /** By path, what the listener's index says of them. */
  readonly described: Readonly<Record<string, string>>;
  /** How they are kept from other sites' pages. */
  kindOf(path: string): PageKind;
  answer(call: HttpCall): Promise<void>;
  /** The listener is open. */
  opened?(): Promise<void>;
  /** The listener waits for answers that are under way, and may be closed soon. */
  closing?(): void;
  closed?(): void;
}
