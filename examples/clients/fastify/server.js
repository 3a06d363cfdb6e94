import fastify from 'fastify';
import { limit } from './limit.js';

const app = fastify({ bodyLimit: 4 * 1024 * 1024 });
const visit = limit('shop', (request) => [[{ remote_address: request.ip }]]);
// While Weir is unavailable, no client can try passwords.
const login = limit(
  'login-throttling',
  (request) => [[{ login_name: request.body?.user }], [{ page: 'login' }, { remote_address: request.ip }]],
  { onError: 'deny' },
);
app.get('/', { onRequest: visit }, async () => 'hello\n');
app.post('/login', { preHandler: login }, async () => 'welcome\n');
const address = await app.listen({ port: Number(process.env.PORT ?? 3000), host: '127.0.0.1' });
console.log(`listens on ${new URL(address).port}`);
