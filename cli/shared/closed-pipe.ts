/** What a process has to know of a stream that it prints to. */
export interface PrintedStream {
  on(event: 'error', listener: (error: NodeJS.ErrnoException) => void): unknown;
}

/**
 * Nobody reads any more (`weir check rules | head`): what is still printed goes nowhere, and the status is that of the
 * command. Any other error of the stream is thrown.
 */
export function endureClosedPipes(streams: readonly PrintedStream[]): void {
  for (const stream of streams) {
    stream.on('error', (error) => {
      if (error.code !== 'EPIPE') throw error;
    });
  }
}
