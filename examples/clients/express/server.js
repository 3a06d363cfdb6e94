import express from 'express';
import { limit } from './limit.js';

const app = express();
app.use(limit('shop', (request) => [[{ remote_address: request.ip }]]));
app.get('/', (_request, response) => response.send('hello\n'));
const server = app.listen(process.env.PORT ?? 3000, '127.0.0.1', () => {
  console.log(`listens on ${server.address().port}`);
});
