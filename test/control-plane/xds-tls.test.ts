import { once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { connect } from 'node:tls';
import { credentials } from '@grpc/grpc-js';
import { describe, expect, it, onTestFinished } from 'vitest';
import type { FleetsOfClients } from '../../control-plane/xds/caller-identity.ts';
import type { XdsServerOptions } from '../../control-plane/xds/xds-server.ts';
import {
  type CertificatePair,
  createAuthority,
  overwritePair,
  type TestAuthority,
} from '../support/certificates.ts';
import { describeWithServer } from '../support/describe-with-server.ts';
import { eventually } from '../support/eventually.ts';
import { opensslProgram } from '../support/find-server.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';
import { ScriptedXdsClient } from '../support/xds-client.ts';
import { fleetsOf, type RunningXdsServer, startXdsServer, testSnapshot } from '../support/xds-server.ts';

const fleets = fleetsOf(testSnapshot('blue', ['b']), testSnapshot('green', ['g']));
/** Short, so that a change of the files is soon seen. */
const reloadIntervalMs = 20;

describeWithServer('TLS', opensslProgram, (openssl) => {
  interface World {
    folder: string;
    authority: TestAuthority;
    server: CertificatePair;
  }

  function makeWorld(): World {
    const folder = temporaryFolder();
    const authority = createAuthority(openssl, folder, 'authority');
    return {
      folder,
      authority,
      server: authority.issue({ name: 'server', alternativeNames: 'DNS:localhost' }),
    };
  }

  async function start(tls: XdsServerOptions['tls'], allowed?: FleetsOfClients): Promise<RunningXdsServer> {
    const bound = allowed === undefined ? {} : { fleetsOfClients: allowed };
    const running = await startXdsServer({
      allowAnonymous: tls?.clientCaFile === undefined,
      ...(tls === undefined ? {} : { tls: { reloadIntervalMs, ...tls } }),
      ...bound,
    });
    running.server.serve(fleets);
    return running;
  }

  function connectAs(port: number, ca: string, fleet: string, pair?: CertificatePair): ScriptedXdsClient {
    const [key, cert] = pair === undefined ? [] : [readFileSync(pair.keyFile), readFileSync(pair.certFile)];
    const client = new ScriptedXdsClient({
      port,
      metadata: { fleet },
      credentials: credentials.createSsl(readFileSync(ca), key ?? null, cert ?? null),
      reconnects: false,
    });
    onTestFinished(() => client.close());
    return client;
  }

  /** Serial number of the certificate that a handshake shows now. */
  function serialNumber(port: number): Promise<string> {
    return new Promise((resolve, reject) => {
      const socket = connect(
        { port, host: '127.0.0.1', rejectUnauthorized: false, ALPNProtocols: ['h2'] },
        () => {
          resolve(socket.getPeerCertificate().serialNumber);
          socket.destroy();
        },
      );
      socket.on('error', reject);
    });
  }

  describe('without client certificates', () => {
    it('serves clients that know the authority', async () => {
      const { authority, server } = makeWorld();
      const { port } = await start(server);
      const client = connectAs(port, authority.caFile, 'blue');
      await eventually(() => expect(client.last?.domains).toEqual(['b']));
    });

    it('reports a handshake that failed', async () => {
      const { folder, server } = makeWorld();
      const { port, events } = await start(server);
      const other = createAuthority(openssl, folder, 'other');
      connectAs(port, other.caFile, 'blue');
      await eventually(() => expect(events[0]).toMatchObject(['A TLS handshake failed', { times: 1 }]));
    });

    it('reports a client that speaks no HTTP/2', async () => {
      const { server } = makeWorld();
      const { port, events } = await start(server);
      const socket = connect({ port, host: '127.0.0.1', rejectUnauthorized: false });
      onTestFinished(() => void socket.destroy());
      await new Promise<void>((resolve) => socket.on('close', () => resolve()).on('error', () => {}));
      const reason = 'the client does not speak HTTP/2';
      expect(events).toEqual([['A TLS handshake failed', { peer: expect.any(String), reason, times: 1 }]]);
    });
  });

  describe('with client certificates', () => {
    it.each([
      ['shows none', false, 'the caller sent no certificate'],
      [
        'shows one of another authority',
        true,
        "the caller's certificate is from an unknown authority (UNABLE_TO_VERIFY_LEAF_SIGNATURE)",
      ],
    ])('rejects a client that %s, and says why', async (_, showsOne, reason) => {
      const { folder, authority, server } = makeWorld();
      const { port, server: xds, events } = await start({ ...server, clientCaFile: authority.caFile });
      const stranger = createAuthority(openssl, folder, 'other').issue({ name: 'stranger' });
      const client = connectAs(port, authority.caFile, 'blue', showsOne ? stranger : undefined);
      await eventually(() => expect(client.ends[0]).toMatch(/^14 UNAVAILABLE/));
      expect(events[0]).toEqual(['A TLS handshake failed', { peer: expect.any(String), reason, times: 1 }]);
      expect(xds.limiters()).toEqual([]);
    });

    it('gives no ticket, which would go around authorities that change', async () => {
      const { authority, server } = makeWorld();
      const { port } = await start({ ...server, clientCaFile: authority.caFile });
      const { certFile, keyFile } = authority.issue({ name: 'blue' });
      const socket = connect({
        ...{ port, host: '127.0.0.1', rejectUnauthorized: false, ALPNProtocols: ['h2'] },
        ...{ cert: readFileSync(certFile), key: readFileSync(keyFile), maxVersion: 'TLSv1.2' },
      });
      onTestFinished(() => void socket.destroy());
      await once(socket, 'secureConnect');
      expect(socket.getTLSTicket()).toBeUndefined();
    });

    it('binds names of certificates to fleets', async () => {
      const { authority, server } = makeWorld();
      const allowed = new Map([
        ['limiter.blue.example', ['blue']],
        ['spiffe://mesh/green', ['green']],
        ['plain', ['blue']],
      ]);
      const { port } = await start({ ...server, clientCaFile: authority.caFile }, allowed);
      const blue = authority.issue({ name: 'one', alternativeNames: 'DNS:limiter.blue.example' });
      const green = authority.issue({ name: 'two', alternativeNames: 'URI:spiffe://mesh/green' });
      const plain = authority.issue({ name: 'plain' });
      const unknown = authority.issue({ name: 'unknown' });
      // An alternative name is the name: what the subject says besides it does not count.
      const posing = authority.issue({ name: 'plain2', alternativeNames: 'DNS:x.example' });

      const served = [
        { pair: blue, fleet: 'blue', domains: ['b'] },
        { pair: green, fleet: 'green', domains: ['g'] },
        { pair: plain, fleet: 'blue', domains: ['b'] },
      ];
      for (const { pair, fleet, domains } of served) {
        const client = connectAs(port, authority.caFile, fleet, pair);
        await eventually(() => expect(client.last?.domains).toEqual(domains));
      }
      const refused = [
        {
          pair: blue,
          fleet: 'green',
          text: 'the certificate of "limiter.blue.example" is not bound to the fleet "green"',
        },
        {
          pair: unknown,
          fleet: 'blue',
          text: 'the certificate of "unknown" has no fleet: add it to XDS_CLIENT_FLEETS',
        },
        {
          pair: posing,
          fleet: 'blue',
          text: 'the certificate of "x.example" has no fleet: add it to XDS_CLIENT_FLEETS',
        },
      ];
      for (const { pair, fleet, text } of refused) {
        const client = connectAs(port, authority.caFile, fleet, pair);
        await eventually(() => expect(client.ends).toEqual([`7 PERMISSION_DENIED: ${text}`]));
        expect(client.received).toEqual([]);
      }
    });

    it('takes another authority for new connections when its file changes', async () => {
      const { folder, authority, server } = makeWorld();
      const other = createAuthority(openssl, folder, 'other');
      const clientCaFile = join(folder, 'clients.pem');
      writeFileSync(clientCaFile, readFileSync(authority.caFile));
      const { port, messages, server: xds } = await start({ ...server, clientCaFile });
      const [mine, others] = [authority.issue({ name: 'mine' }), other.issue({ name: 'others' })];
      const before = connectAs(port, authority.caFile, 'blue', mine);
      await eventually(() => expect(before.last).toBeDefined());
      writeFileSync(clientCaFile, readFileSync(other.caFile));
      await eventually(() => expect(messages()).toContain('A new certificate is in use'));
      const [late, next] = [
        connectAs(port, authority.caFile, 'blue', mine),
        connectAs(port, authority.caFile, 'blue', others),
      ];
      await eventually(() => expect(next.last).toBeDefined());
      await eventually(() => expect(late.ends[0]).toMatch(/^14 UNAVAILABLE/));
      expect(before.ends).toEqual([]);
      expect(xds.limiters()).toHaveLength(2);
    });
  });

  describe('the files', () => {
    it('are read again while streams stay open', async () => {
      const { authority, server } = makeWorld();
      const { port, messages } = await start(server);
      const client = connectAs(port, authority.caFile, 'blue');
      await eventually(() => expect(client.last).toBeDefined());
      const before = await serialNumber(port);
      overwritePair(authority.issue({ name: 'next', alternativeNames: 'DNS:localhost' }), server);
      await eventually(async () => expect(await serialNumber(port)).not.toBe(before));
      expect(messages()).toContain('A new certificate is in use');
      expect(client.ends).toEqual([]);
      const late = connectAs(port, authority.caFile, 'blue');
      await eventually(() => expect(late.last).toBeDefined());
    });

    it('keep their last good pair in use', async () => {
      const { authority, server } = makeWorld();
      const { port, events } = await start(server);
      const before = await serialNumber(port);
      const next = authority.issue({ name: 'next', alternativeNames: 'DNS:localhost' });
      writeFileSync(server.certFile, readFileSync(next.certFile));
      const unusable = 'A new certificate cannot be used: the previous one stays in use';
      const refusals = (): unknown[] => events.filter(([message]) => message === unusable);
      await eventually(() => expect(refusals()).toHaveLength(1));
      const mismatch = `its key does not belong to the first certificate of ${server.certFile}`;
      expect(refusals()).toEqual([[unusable, { listener: 'xDS', reason: `${server.keyFile}: ${mismatch}` }]]);
      expect(await serialNumber(port)).toBe(before);
      writeFileSync(server.keyFile, readFileSync(next.keyFile));
      await eventually(async () => expect(await serialNumber(port)).not.toBe(before));
      expect(refusals()).toHaveLength(1);
    });

    it('are named when the server cannot start with them', async () => {
      const { folder, authority, server } = makeWorld();
      const missing = join(folder, 'missing.pem');
      await expect(start({ ...server, keyFile: missing })).rejects.toThrow(
        `${missing}: no such file or directory`,
      );
      const empty = join(folder, 'empty.pem');
      writeFileSync(empty, '');
      await expect(start({ ...server, clientCaFile: empty })).rejects.toThrow(`${empty}: the file is empty`);
      const wrong = { certFile: server.certFile, keyFile: authority.issue({ name: 'x' }).keyFile };
      await expect(start(wrong)).rejects.toThrow(
        `${wrong.keyFile}: its key does not belong to the first certificate of ${wrong.certFile}`,
      );
    });
  });
});
