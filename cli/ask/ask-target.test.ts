import { resolve } from 'node:path';
import { describe, expect, it } from 'vitest';
import { parseFlags } from '../shared/flags.ts';
import { askCommand } from './ask-command.ts';
import { askTls, endpointText, parseAddress } from './ask-target.ts';

describe('parseAddress', () => {
  it.each([
    ['localhost:8081', { host: 'localhost', port: 8081 }, 'localhost:8081'],
    ['[::1]:8081', { host: '::1', port: 8081 }, '[::1]:8081'],
    ['dns:///limiter.example:8081', { host: 'limiter.example', port: 8081 }, 'limiter.example:8081'],
    ['ipv4:10.0.0.1:8081', { host: '10.0.0.1', port: 8081 }, '10.0.0.1:8081'],
    ['limiter', { host: 'limiter', port: 443 }, 'limiter:443'],
    ['unix:/run/weir.sock', { path: '/run/weir.sock' }, '/run/weir.sock'],
    ['unix:///run/weir.sock', { path: '/run/weir.sock' }, '/run/weir.sock'],
    ['unix:weir.sock', { path: 'weir.sock' }, 'weir.sock'],
  ])('passes %s to gRPC unchanged, and knows where it goes', (text, endpoint, written) => {
    expect(parseAddress(text)).toEqual({ target: text, endpoint });
    expect(endpointText(endpoint)).toBe(written);
  });

  it.each([['/run/weir.sock'], ['./weir.sock'], ['../weir.sock']])('takes %s for a Unix socket', (text) => {
    const path = resolve(text);
    expect(parseAddress(text)).toEqual({ target: `unix:${path}`, endpoint: { path } });
  });

  it.each([['ipv4:10.0.0.1:1,10.0.0.2:1'], ['xds:///limiter'], ['unix-abstract:weir']])(
    'leaves %s to gRPC',
    (text) => expect(parseAddress(text)).toEqual({ target: text, endpoint: undefined }),
  );

  it.each([
    ['', '--dial-string is host:port, not ""'],
    ['http://localhost:8081/json', '--dial-string is host:port, not a URL: "localhost:8081" may do'],
    [
      'localhost:99999',
      '--dial-string "localhost:99999": a port is a whole number from 1 to 65535, not "99999"',
    ],
    ['::1:8081', '--dial-string "::1:8081": an IPv6 address is in brackets, as in [::1]:8081'],
    ['2001:db8::1', '--dial-string "2001:db8::1": an IPv6 address is in brackets, as in [::1]:8081'],
  ])('rejects "%s"', (text, message) => {
    expect(() => parseAddress(text)).toThrow(message);
  });
});

describe('askTls', () => {
  const files = ['-grpc-server-ca-file', '', '-grpc-cert-file=', '-grpc-key-file='];

  it.each([
    ['-grpc-use-tls=false', undefined],
    ['-grpc-use-tls', {}],
  ])('reads no file of an empty path, the default of the Go client, with %s', (flag, tls) => {
    expect(askTls(parseFlags([flag, ...files], askCommand.flags))).toEqual(tls);
  });
});
