import type { Socket } from 'node:net';

/** How long a peer may take to hang up after we did: a reset at once could cost it our last frames. */
const lingerMs = 500;

/** The connections of one listener, so that its end can be bounded whatever its peers do. */
export class OpenSockets {
  readonly #sockets = new Set<Socket>();

  get size(): number {
    return this.#sockets.size;
  }

  /** Watches a connection from its beginning; also destroys it where its peer does not hang up after we did. */
  add(socket: Socket): void {
    this.#sockets.add(socket);
    let linger: NodeJS.Timeout | undefined;
    socket.on('finish', () => {
      linger = setTimeout(() => socket.destroy(), lingerMs);
    });
    socket.on('close', () => {
      clearTimeout(linger);
      this.#sockets.delete(socket);
    });
  }

  /** Ends all of them by force. */
  cut(): void {
    for (const socket of this.#sockets) socket.destroy();
  }
}
