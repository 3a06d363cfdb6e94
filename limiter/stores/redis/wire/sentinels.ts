import type { ClientTls } from '../../client-tls.ts';
import { StoreError } from '../../store-error.ts';
import type { SentinelAddress } from './redis-address.ts';
import { connectingHint, RedisErrors } from './redis-error.ts';
import { RedisLink, type RedisLinkOptions } from './redis-link.ts';
import { type Reply, UnexpectedReply } from './resp.ts';

export interface MasterPlace {
  host: string;
  port: number;
}

/** Undefined where a sentinel's words are no place. */
function placeOf(host: string, port: string | undefined): MasterPlace | undefined {
  const number = /^\d{1,5}$/.test(port ?? '') ? Number(port) : 0;
  return host !== '' && number > 0 && number <= 65_535 ? { host, port: number } : undefined;
}

export interface SentinelsOptions {
  address: SentinelAddress;
  /** Bounds connecting to a sentinel, and its answer. */
  timeoutMs: number;
  tls: ClientTls | undefined;
  /** One of them asks for no password, though one is set. */
  onNeedlessPassword?: (() => void) | undefined;
}

/** A lost watch is opened again so much later; nobody waits for it. */
const watchRetryMs = 1_000;

/** What a connection asks of the sentinels: where the master is, and word when it is another. */
export class Sentinels {
  readonly #options: SentinelsOptions;
  readonly #errors: RedisErrors;
  /** To sentinels, be they asked or watched. */
  readonly #links = new Set<RedisLink>();
  #closed = false;

  constructor(options: SentinelsOptions) {
    this.#options = options;
    const { timeoutMs, address } = options;
    this.#errors = new RedisErrors({ timeoutMs, password: address.sentinelAuth.password });
  }

  /** Asks all of them at once and takes the first answer: one that hangs holds up nobody. Rejects with a StoreError. */
  async master(): Promise<MasterPlace> {
    const links = this.#options.address.sentinels.map((place) => ({ place, link: this.#link(place) }));
    try {
      return await Promise.any(links.map(({ place, link }) => this.#ask(place, link)));
    } catch (error) {
      throw (error as AggregateError).errors[0];
    } finally {
      for (const { link } of links) link.close();
    }
  }

  /** Calls back when a sentinel says that the master is another, once for each sentinel. */
  watch(onSwitch: (master: MasterPlace) => void): void {
    for (const place of this.#options.address.sentinels) this.#watch(place, onSwitch);
  }

  close(): void {
    this.#closed = true;
    for (const link of this.#links) link.close();
  }

  async #ask(place: MasterPlace, link: RedisLink): Promise<MasterPlace> {
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
    const [host = '', port] = Array.isArray(reply) && reply.length === 2 ? reply.map(String) : [];
    const master = placeOf(host, port);
    if (master !== undefined) return master;
    const { message } = new UnexpectedReply('SENTINEL', reply);
    throw new StoreError(`${name}: ${message}`, { transient: true });
  }

  #watch(place: MasterPlace, onSwitch: (master: MasterPlace) => void): void {
    if (this.#closed) return;
    const link = this.#link(place, {
      onMessage: (message) => {
        const text = Array.isArray(message) ? String(message[2]) : '';
        const [name, , , host = '', port] = text.split(' ');
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

  #link(endpoint: MasterPlace, reported: Pick<RedisLinkOptions, 'onMessage' | 'onEnd'> = {}): RedisLink {
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
