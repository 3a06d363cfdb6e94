import type { ClientTls } from '../../client-tls.ts';
import { StoreError } from '../../store-error.ts';
import type { NodePlace, SentinelAddress } from './redis-address.ts';
import { connectingHint, RedisErrors } from './redis-error.ts';
import { RedisLink, type RedisLinkOptions } from './redis-link.ts';
import { type Reply, UnexpectedReply } from './resp.ts';

/** Returns an address, or undefined if a sentinel's answer is not one. */
function placeOf(host: string | undefined, port: string | undefined): NodePlace | undefined {
  const number = /^\d{1,5}$/.test(String(port)) ? Number(port) : 0;
  return host && number > 0 && number <= 65_535 ? { host, port: number } : undefined;
}

export interface SentinelsOptions {
  address: SentinelAddress;
  /** The maximum time for connecting to a sentinel, and for its answer. */
  timeoutMs: number;
  tls: ClientTls | undefined;
  /** Called when a sentinel requires no password although one is set. */
  onNeedlessPassword?: (() => void) | undefined;
}

/** A lost watch is opened again after this time. No call waits for it. */
const watchRetryMs = 1_000;

/** The connections to the sentinels: they answer which server is the master, and report when it changes. */
export class Sentinels {
  readonly #options: SentinelsOptions;
  readonly #errors: RedisErrors;
  /** The links to sentinels, for questions and watches. */
  readonly #links = new Set<RedisLink>();
  #closed = false;

  constructor(options: SentinelsOptions) {
    this.#options = options;
    const { timeoutMs, address } = options;
    this.#errors = new RedisErrors({ timeoutMs, password: address.sentinelAuth.password });
  }

  /** Asks all sentinels at once and takes the first answer, so that a sentinel that hangs causes no delay. Rejects with a StoreError. */
  async master(): Promise<NodePlace> {
    const links = this.#options.address.sentinels.map((place) => ({ place, link: this.#link(place) }));
    try {
      return await Promise.any(links.map(({ place, link }) => this.#ask(place, link)));
    } catch (error) {
      throw (error as AggregateError).errors[0];
    } finally {
      for (const { link } of links) link.close();
    }
  }

  /** Calls `onSwitch` when a sentinel reports another master, once for each sentinel. */
  watch(onSwitch: (master: NodePlace) => void): void {
    for (const place of this.#options.address.sentinels) this.#watch(place, onSwitch);
  }

  close(): void {
    this.#closed = true;
    for (const link of this.#links) link.close();
  }

  async #ask(place: NodePlace, link: RedisLink): Promise<NodePlace> {
    const { masterName } = this.#options.address;
    const name = `sentinel ${place.host}:${place.port}`;
    let reply: Reply;
    try {
      await this.#login(link);
      reply = await link.ask('sentinel', ['get-master-addr-by-name', masterName]);
    } catch (error) {
      const { message, transient } = this.#errors.fromConnecting(error);
      const hint = connectingHint(error, { tls: this.#options.tls !== undefined, wasConnected: false });
      throw new StoreError(`${name}: ${message}${hint}`, { transient });
    }
    if (reply === null) throw new StoreError(`${name} knows no master "${masterName}"`, { transient: true });
    const [host, port] = Array.isArray(reply) && reply.length === 2 ? reply.map(String) : [];
    const master = placeOf(host, port);
    if (master !== undefined) return master;
    const { message } = new UnexpectedReply('SENTINEL', reply);
    throw new StoreError(`${name}: ${message}`, { transient: true });
  }

  #watch(place: NodePlace, onSwitch: (master: NodePlace) => void): void {
    if (this.#closed) return;
    const link = this.#link(place, {
      onMessage: (message) => {
        const text = Array.isArray(message) ? String(message[2]) : '';
        const [name, , , host, port] = text.split(' ');
        const master = placeOf(host, port);
        if (name === this.#options.address.masterName && master !== undefined) onSwitch(master);
      },
      onEnd: () => void setTimeout(() => this.#watch(place, onSwitch), watchRetryMs).unref(),
    });
    this.#login(link)
      .then(() => link.ask('subscribe', ['+switch-master']))
      .catch(() => link.close());
  }

  #login(link: RedisLink): Promise<void> {
    const { address, onNeedlessPassword = () => {} } = this.#options;
    return link.login(address.sentinelAuth, onNeedlessPassword);
  }

  #link(endpoint: NodePlace, reported: Pick<RedisLinkOptions, 'onMessage' | 'onEnd'> = {}): RedisLink {
    const { timeoutMs, tls } = this.#options;
    const link: RedisLink = new RedisLink({
      ...reported,
      endpoint,
      tls,
      timeoutMs,
      onEnd: (error) => {
        this.#links.delete(link);
        reported.onEnd?.(error);
      },
    });
    this.#links.add(link);
    return link;
  }
}
