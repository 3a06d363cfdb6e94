import { integer } from '../../process/settings/settings-kinds.ts';
import type { SettingsOf } from '../../process/settings/settings-reader.ts';

export const overLimitSettings = {
  refusalsKept: {
    name: 'REFUSALS_KEPT',
    kind: integer({ min: 0, max: 1_000_000 }),
    default: 10_000,
    summary:
      'Rows of [requests over limit](over-limit.md#which-requests-were-over-limit) (`weir why`) in each thread that answers callers: one for each counter and second, of 512 bytes. 0: none. Not in the Go service.',
  },
} as const;

export interface OverLimitSettings extends SettingsOf<typeof overLimitSettings> {
  readonly requestMaxTextBytes: number;
}
