import { createSocket } from 'node:dgram';
import { Resolver } from 'node:dns/promises';
import { once } from 'node:events';

export interface SrvRecord {
  target: string;
  port: number;
}

/** A DNS server on loopback that answers every question with the same SRV records. RFC 1035, section 4.1; RFC 2782. */
export class SrvServer {
  records: SrvRecord[] = [];
  /** Questions so far. */
  questions = 0;
  readonly #socket = createSocket('udp4');

  /** Resolves with a resolver that asks this server alone. */
  async start(): Promise<Resolver> {
    this.#socket.on('message', (question, { port, address }) => {
      this.questions += 1;
      this.#socket.send(this.#answer(question), port, address);
    });
    this.#socket.bind(0, '127.0.0.1');
    await once(this.#socket, 'listening');
    const resolver = new Resolver({ timeout: 1000, tries: 1 });
    resolver.setServers([`127.0.0.1:${this.#socket.address().port}`]);
    return resolver;
  }

  stop(): void {
    this.#socket.close();
  }

  /** Without records: NXDOMAIN. */
  #answer(question: Buffer): Buffer {
    const end = question.indexOf(0, 12) + 5;
    const header = Buffer.from(question.subarray(0, 12));
    header.writeUInt16BE(this.records.length === 0 ? 0x8183 : 0x8180, 2);
    header.writeUInt16BE(this.records.length, 6);
    header.writeUInt32BE(0, 8);
    return Buffer.concat([header, question.subarray(12, end), ...this.records.map(encode)]);
  }
}

function encode({ target, port }: SrvRecord): Buffer {
  const labels = target.split('.').map((label) => Buffer.from([label.length, ...Buffer.from(label)]));
  const name = Buffer.concat([...labels, Buffer.from([0])]);
  const fixed = Buffer.alloc(18);
  // A pointer to the question's name, the type SRV, the class IN, a life of 0.
  fixed.writeUInt16BE(0xc00c, 0);
  fixed.writeUInt16BE(33, 2);
  fixed.writeUInt16BE(1, 4);
  fixed.writeUInt16BE(6 + name.length, 10);
  fixed.writeUInt16BE(port, 16);
  return Buffer.concat([fixed, name]);
}
