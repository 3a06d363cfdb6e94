import fastify from 'fastify';
import { limit } from './limit.js';

const app = fastify();
app.addHook(
  'onRequest',
  limit('shop', (request) => [[{ remote_address: request.ip }]]),
);
app.get('/', async () => 'hello\n');
const address = await app.listen({ port: Number(process.env.PORT ?? 3000), host: '127.0.0.1' });
console.log(`listens on ${new URL(address).port}`);
