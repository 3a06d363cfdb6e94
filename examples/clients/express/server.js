import express from 'express';
import { limit } from './limit.js';

const app = express();
const visit = limit('shop', (request) => [[{ remote_address: request.ip }]]);
// Counts the account and the address. While Weir is unavailable, no client can try passwords.
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

/** Returns the account of a user name. If names of one account differ, look it up here, or each name has its own limit. */
async function accountOf(user) {
  return user;
}

const server = app.listen(process.env.PORT ?? 3000, '127.0.0.1', () => {
  console.log(`listens on ${server.address().port}`);
});
