import type { ErrorCode } from '../../limiter/http2/constants.ts';
import type {
  HeaderFields,
  RequestConnection,
  RequestReceiver,
  RequestStream,
} from '../../limiter/http2/request-handler.ts';

/** Passes on what is sent to the stream that it is for. */
function playedConnection(): RequestConnection {
  return {
    ...{ peer: undefined, callerMemo: undefined, fieldsMemo: undefined },
    respond: (stream: PlayedStream, ...whole) => stream.respond(...whole),
    sendHeaders: (stream: PlayedStream, ...section) => stream.sendHeaders(...section),
    sendData: (stream: PlayedStream, body) => stream.sendData(body),
    sendTrailers: (stream: PlayedStream, fields) => stream.sendTrailers(fields),
    hold: (stream: PlayedStream, bytes) => stream.hold(bytes),
    reset: (stream: PlayedStream, code) => stream.reset(code),
    probe: () => false,
  };
}

/** A stream of a connection that does not exist: writes down what the handler answers. */
export class PlayedStream implements RequestStream {
  readonly id = 1;
  openedMs = 1_000;
  receiver: RequestReceiver | undefined = undefined;
  isOpen = true;
  queuedBytes = 0;
  requestIsStream = false;
  answerIsStream = false;
  /** Of its own, unless configured otherwise. */
  connection: RequestConnection = playedConnection();
  /** Every header section, the trailers included. */
  readonly sections: Record<string, string>[] = [];
  readonly body: Uint8Array[] = [];
  resetCode: ErrorCode | undefined;
  /** What the handler keeps of it. */
  bufferedBytes = 0;

  respond(
    fields: HeaderFields,
    body: Uint8Array,
    trailers: HeaderFields,
    lead: Uint8Array = new Uint8Array(0),
  ): void {
    this.sendHeaders(fields, false);
    this.sendData(Buffer.concat([lead, body]));
    this.sendTrailers(trailers);
  }

  sendHeaders(fields: HeaderFields, endStream: boolean): void {
    this.#section(fields, endStream);
  }

  sendData(body: Uint8Array): void {
    if (!this.isOpen) throw new Error('data after the end');
    this.body.push(body);
  }

  sendTrailers(fields: HeaderFields): void {
    this.#section(fields, true);
  }

  hold(bytes: number): void {
    this.bufferedBytes += bytes;
  }

  reset(code: ErrorCode): void {
    this.isOpen = false;
    this.resetCode = code;
  }

  /** The last section: of an answer that ended, the trailers. */
  get last(): Record<string, string> | undefined {
    return this.sections.at(-1);
  }

  #section(fields: HeaderFields, endStream: boolean): void {
    if (!this.isOpen) throw new Error('a header section after the end');
    const section: Record<string, string> = {};
    for (let index = 0; index < fields.length; index += 2) section[fields[index]!] = fields[index + 1]!;
    this.sections.push(section);
    if (endStream) this.isOpen = false;
  }
}
