/**
 * Finds out whose handshake failed. Node tells of a failure by the TLS socket, which has forgotten its peer when the
 * connection is gone, and of the end of the connection by the socket below it, which knows the peer and what went over it.
 * The two come in the same turn of the event loop and in the same order, and nothing else says that they belong together:
 * failures without a name are paired with ends as they come.
 */
import type { Socket } from 'node:net';
import type { HeldBytes, Holding } from '../../process/net/held-bytes.ts';
import { peerName } from '../../process/net/peer.ts';
import { handshakeBytes } from '../../process/net/tls-handshake.ts';
import { violationTexts } from '../http2/violation.ts';
import type { TlsRefusal } from './refusals.ts';

export interface FailedHandshake {
  refusal: TlsRefusal;
  problem: string;
  /** It says no more than that the connection ended. */
  isHangUp: boolean;
}

export interface OpenHandshakesOptions {
  /** Hears of every failure but those of peers that went without a word, as a probe of the port does. */
  tell(refusal: TlsRefusal | 'too_many_bytes', peer: string, problem: string): void;
  /** What a peer without an address is called. */
  nameless: string;
  held: HeldBytes;
}

/** Not every library sends the alert for it. */
const mayBeDistrust = ", perhaps as it does not trust the server's certificate";

interface Below {
  peer: string;
  socket: Socket;
  holding: Holding | undefined;
}

export class OpenHandshakes {
  readonly #options: OpenHandshakesOptions;
  /** By name: connections whose handshake goes on. */
  readonly #open = new Map<string, Below>();
  #ended: Below[] = [];
  #failed: FailedHandshake[] = [];
  #isSettling = false;

  constructor(options: OpenHandshakesOptions) {
    this.#options = options;
  }

  /** The socket below TLS, as it was accepted. */
  begun(socket: Socket): void {
    const name = peerName(socket);
    const below: Below = { peer: name ?? this.#options.nameless, socket, holding: undefined };
    // Of one without an address nobody would say when it is over.
    if (name !== undefined) this.#hold(below);
    if (name !== undefined) this.#open.set(name, below);
    socket.on('close', () => {
      below.holding?.close();
      if (name !== undefined && !this.#open.delete(name)) return;
      this.#ended.push(below);
      this.#pair();
    });
  }

  /** The handshake of this peer succeeded. One without an address ends later without a partner. */
  done(name: string | undefined): void {
    if (name === undefined) return;
    this.#open.get(name)?.holding?.close();
    this.#open.delete(name);
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

  #hold(below: Below): void {
    const { held, tell } = this.#options;
    below.holding = held.open(below.socket.remoteAddress, {
      shed: () => {
        tell('too_many_bytes', below.peer, violationTexts.too_many_bytes);
        // Told already: what else is said of its end is no news.
        this.done(below.peer);
        below.socket.destroy();
        return true;
      },
    });
    below.holding.set(handshakeBytes);
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
      if (!isHangUp) this.#options.tell(refusal, this.#options.nameless, problem);
    }
  }

  #tellOf({ peer, socket }: Below, { refusal, problem, isHangUp }: FailedHandshake): void {
    if (isHangUp && socket.bytesRead === 0) return;
    this.#options.tell(
      refusal,
      peer,
      isHangUp && socket.bytesWritten > 0 ? problem + mayBeDistrust : problem,
    );
  }
}
