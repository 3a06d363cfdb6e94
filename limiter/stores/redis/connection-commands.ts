import { StoreError } from '../store-error.ts';
import type { KeyedCommands } from './keyed-commands.ts';
import type { RedisConnection } from './redis-connection.ts';
import { isTimeout } from './redis-error.ts';

/** All keys by one connection. */
export function connectionCommands(connection: RedisConnection): KeyedCommands {
  return {
    send: async (_key, name, args) => {
      try {
        return await connection.send(name, args);
      } catch (error) {
        if (isTimeout(error)) connection.reset();
        throw error;
      }
    },
    translate: (error) => (error instanceof StoreError ? error : connection.errors.fromCommand(error)),
    placeOf: () => connection,
  };
}
