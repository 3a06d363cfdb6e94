/** The peer's SETTINGS. RFC 9113, section 6.5.2; RFC 9113, section 6.5.3 for the order. */
import { initialMaxFrameBytes, largest31, largestMaxFrameBytes, Setting } from './constants.ts';
import { ErrorCode } from './error-code.ts';
import { readUint32 } from './frame-reader.ts';
import type { ResponseWriter } from './response-writer.ts';
import { ConnectionError } from './violation.ts';

export const settingBytes = 6;

/**
 * Applies what concerns a server's sending. MAX_FRAME_SIZE is only checked, as no larger frame than the initial one is
 * ever sent; of several initial windows only the last changes the streams, which costs a pass over all of them.
 * @throws ConnectionError
 */
export function applySettings(writer: ResponseWriter, bytes: Uint8Array, start: number, end: number): void {
  let window = writer.initialStreamWindow;
  for (let at = start; at < end; at += settingBytes) {
    const identifier = ((bytes[at] as number) << 8) | (bytes[at + 1] as number);
    const value = readUint32(bytes, at + 2);
    check(identifier, value);
    if (identifier === Setting.HEADER_TABLE_SIZE) writer.encoder.setPeerTableBytes(value);
    else if (identifier === Setting.INITIAL_WINDOW_SIZE) window = value;
  }
  if (window !== writer.initialStreamWindow && !writer.changeInitialWindow(window)) {
    throw new ConnectionError(ErrorCode.FLOW_CONTROL_ERROR, 'flow_control_error');
  }
}

function check(identifier: number, value: number): void {
  if (identifier === Setting.INITIAL_WINDOW_SIZE && value > largest31) {
    throw new ConnectionError(ErrorCode.FLOW_CONTROL_ERROR, 'flow_control_error');
  }
  const good =
    identifier === Setting.ENABLE_PUSH
      ? value <= 1
      : identifier !== Setting.MAX_FRAME_SIZE ||
        (value >= initialMaxFrameBytes && value <= largestMaxFrameBytes);
  if (!good) throw new ConnectionError(ErrorCode.PROTOCOL_ERROR, 'protocol_error');
}
