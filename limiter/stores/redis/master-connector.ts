/** How ioredis comes to a connection with the master that the sentinels name, anew at every attempt. */
import { connect as connectTcp, Socket } from 'node:net';
import { connect as connectTls } from 'node:tls';
import { AbstractConnector, type RedisOptions } from 'ioredis';
import type { ClientTls } from '../client-tls.ts';
import type { MasterPlace, Sentinels } from './sentinels.ts';

export interface MasterConnectorOptions {
  sentinels: Sentinels;
  tls: ClientTls | undefined;
  /** Where the attempt under way goes. */
  onPlace: (place: MasterPlace) => void;
}

/**
 * Not the library's own: that one gives up for good when no sentinel answers, or tries again by itself without an end
 * that the connection could see.
 */
export function masterConnector(given: MasterConnectorOptions): NonNullable<RedisOptions['Connector']> {
  return class extends AbstractConnector {
    constructor() {
      super(1);
    }

    override async connect(): Promise<Socket> {
      this.connecting = true;
      let place: MasterPlace;
      try {
        place = await given.sentinels.master();
      } catch (error) {
        if (!this.connecting) throw error;
        // A socket that is broken already makes this a failed attempt like any other; a rejection would be the last one.
        this.firstError = error as Error;
        return new Socket().destroy();
      }
      if (!this.connecting) throw new Error('Connection is closed.');
      given.onPlace(place);
      this.stream =
        given.tls === undefined ? connectTcp(place) : connectTls({ ...place, ...given.tls.options });
      return this.stream;
    }

    override disconnect(): void {
      super.disconnect();
      given.sentinels.stopAsking();
    }
  };
}
