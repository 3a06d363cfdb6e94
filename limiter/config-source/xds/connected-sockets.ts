import type { Socket } from 'node:net';
import type { ChannelCredentials } from '@grpc/grpc-js';

type CreateConnector = ChannelCredentials['_createSecureConnector'];

/**
 * The sockets that a channel with these credentials connects. A channel that is closed while the server has taken the
 * connection and says nothing leaves it open for ever, and offers no other way to end it.
 */
export function socketsOf(credentials: ChannelCredentials): ReadonlySet<Socket> {
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
    return connector;
  };
  return sockets;
}
