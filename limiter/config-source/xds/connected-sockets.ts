import type { Socket } from 'node:net';
import type { ChannelCredentials } from '@grpc/grpc-js';

type CreateConnector = ChannelCredentials['_createSecureConnector'];

/**
 * Lets a channel with these credentials connect to each of its addresses once, and returns the sockets that it connects.
 *
 * grpc-js tries an address that failed again by its own clock, after a second the first time: while another address keeps
 * the channel waiting, and once more when the channel is closed, as the subchannel's timer goes on. The second attempt
 * waits here until the subchannel is given up, which its pool does within 10 s. And a channel that is closed while the
 * server has taken the connection and says nothing leaves it open for ever, and offers no other way to end it.
 */
export function connectOnce(credentials: ChannelCredentials): ReadonlySet<Socket> {
  const sockets = new Set<Socket>();
  const create: CreateConnector = credentials._createSecureConnector.bind(credentials);
  credentials._createSecureConnector = (...details: Parameters<CreateConnector>) => {
    const connector = create(...details);
    const connect = connector.connect.bind(connector);
    connector.connect = (socket) => {
      sockets.add(socket);
      socket.once('close', () => sockets.delete(socket));
      return connect(socket);
    };
    // Comes before the socket is made.
    const waitForReady = connector.waitForReady.bind(connector);
    let wasReady = false;
    connector.waitForReady = () => {
      if (wasReady) return new Promise(() => {});
      wasReady = true;
      return waitForReady();
    };
    return connector;
  };
  return sockets;
}
