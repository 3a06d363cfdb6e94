/** Why a line of a recording cannot be replayed. */
export class RecordingError extends Error {
  override readonly name = 'RecordingError';
}
