/**
 * Finds out whose handshake failed. Node tells of a failure by the TLS socket, which has forgotten its peer when the
 * connection is gone, and of the end of the connection by the socket below it, which knows the peer and what went over it.
 * The two come in the same turn of the event loop and in the same order, and nothing else says that they belong together:
 * failures without a name are paired with ends as they come.
 */
import type { Socket } from 'node:net';
import { peerName } from './peer-name.ts';
import type { TlsRefusal } from './refusals.ts';

export interface FailedHandshake {
  refusal: TlsRefusal;
  problem: string;
  /** It says no more than that the connection ended. */
  isHangUp: boolean;
}

type Tell = (refusal: TlsRefusal, peer: string, problem: string) => void;

/** Not every library sends the alert for it. */
const mayBeDistrust = ", perhaps as it does not trust the server's certificate";

interface Below {
  peer: string;
  socket: Socket;
}

export class OpenHandshakes {
  readonly #tell: Tell;
  readonly #nameless: string;
  /** By name: connections whose handshake goes on. */
  readonly #open = new Map<string, Below>();
  #ended: Below[] = [];
  #failed: FailedHandshake[] = [];
  #isSettling = false;

  /**
   * `tell` hears of every failure but those of peers that went without a word, as a probe of the port does; `nameless` is
   * what a peer without an address is called.
   */
  constructor(tell: Tell, nameless: string) {
    this.#tell = tell;
    this.#nameless = nameless;
  }

  /** The socket below TLS, as it was accepted. */
  begun(socket: Socket): void {
    const name = peerName(socket);
    const below = { peer: name ?? this.#nameless, socket };
    if (name !== undefined) this.#open.set(name, below);
    socket.on('close', () => {
      if (name !== undefined && !this.#open.delete(name)) return;
      this.#ended.push(below);
      this.#pair();
    });
  }

  /** The handshake of this peer succeeded. One without an address ends later without a partner. */
  done(name: string | undefined): void {
    if (name !== undefined) this.#open.delete(name);
  }

  failed(name: string | undefined, failure: FailedHandshake): void {
    const below = name === undefined ? undefined : this.#open.get(name);
    if (below === undefined) {
      this.#failed.push(failure);
      this.#pair();
      return;
    }
    this.done(name);
    this.#tellOf(below, failure);
  }

  #pair(): void {
    while (this.#ended.length > 0 && this.#failed.length > 0) {
      this.#tellOf(this.#ended.shift() as Below, this.#failed.shift() as FailedHandshake);
    }
    if (this.#isSettling || this.#ended.length + this.#failed.length === 0) return;
    this.#isSettling = true;
    setImmediate(() => this.#settle());
  }

  /** What found no partner in its turn will not find one, and must not take that of another. */
  #settle(): void {
    this.#isSettling = false;
    this.#ended = [];
    for (const { refusal, problem, isHangUp } of this.#failed.splice(0)) {
      if (!isHangUp) this.#tell(refusal, this.#nameless, problem);
    }
  }

  #tellOf({ peer, socket }: Below, { refusal, problem, isHangUp }: FailedHandshake): void {
    if (isHangUp && socket.bytesRead === 0) return;
    this.#tell(refusal, peer, isHangUp && socket.bytesWritten > 0 ? problem + mayBeDistrust : problem);
  }
}
