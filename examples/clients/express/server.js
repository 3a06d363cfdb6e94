import express from 'express';
import { limit } from './limit.js';

const app = express();
const visit = limit('shop', (request) => [[{ remote_address: request.ip }]]);
// Without Weir, nobody may try passwords.
const login = limit(
  'login-throttling',
  (request) => [[{ login_name: request.body?.user }], [{ page: 'login' }, { remote_address: request.ip }]],
  { onError: 'deny' },
);
app.get('/', visit, (_request, response) => response.send('hello\n'));
app.post('/login', express.json({ limit: '4mb' }), login, (_request, response) => response.send('welcome\n'));
const server = app.listen(process.env.PORT ?? 3000, '127.0.0.1', () => {
  console.log(`listens on ${server.address().port}`);
});
