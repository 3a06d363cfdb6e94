/** Recorded requests through the limiter's own decisions, on a clock that the recording moves. Nothing here reads files. */
export { TooManyBadLines } from '../../replay/bad-lines.ts';
export { Replay, type ReplayOptions } from '../../replay/replay.ts';
export {
  type ChangeReport,
  type LimitedReport,
  type OffendersReport,
  type ReplayReport,
  type RuleReport,
  type RuleSetReport,
  reportOf,
} from '../../replay/replay-report.ts';
