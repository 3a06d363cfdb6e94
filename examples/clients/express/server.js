import express from 'express';
import { limit } from './limit.js';

const app = express();
const visit = limit('shop', (request) => [[{ remote_address: request.ip }]]);
// By account and by address. While Weir is unavailable, passwords cannot be tried.
const login = limit(
  'login-throttling',
  async (request) => [
    [{ login_name: await accountOf(request.body?.user) }],
    [{ page: 'login' }, { remote_address: request.ip }],
  ],
  { onError: 'deny' },
);
app.get('/', visit, (_request, response) => response.send('hello\n'));
app.post('/login', express.json({ limit: '4mb' }), login, (_request, response) => response.send('welcome\n'));

/** Where names of an account are spelled in several ways, look for it here: each way would have a limit of its own. */
async function accountOf(user) {
  return user;
}

const server = app.listen(process.env.PORT ?? 3000, '127.0.0.1', () => {
  console.log(`listens on ${server.address().port}`);
});
