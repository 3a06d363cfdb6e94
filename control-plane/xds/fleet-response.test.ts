import { fromBinary } from '@bufbuild/protobuf';
import { describe, expect, it } from 'vitest';
import { DiscoveryResponseSchema } from '../../gen/envoy/service/discovery/v3/discovery_pb.ts';
import { fleetSnapshot, hashOf } from '../model/fleet-snapshot.ts';
import { defaultClientLimitBytes, FleetResponse, withNonce } from './fleet-response.ts';

const typeUrl = 'type.googleapis.com/ratelimit.config.ratelimit.v3.RateLimitConfig';

function resource(name: string, bytes: Uint8Array) {
  return { name, domain: name, bytes, hash: hashOf(bytes), needs: [] };
}

describe('FleetResponse', () => {
  it('is a discovery response once a nonce is appended', () => {
    const snapshot = fleetSnapshot('blue', [
      resource('team/b', Buffer.from('bytes of b')),
      resource('team/a', Buffer.from('bytes of a')),
    ]);
    const response = new FleetResponse(snapshot, 'replica-0');
    expect(response).toMatchObject({
      fleet: 'blue',
      version: snapshot.version,
      resources: snapshot.resources,
      isOversize: false,
    });
    expect(fromBinary(DiscoveryResponseSchema, withNonce(response.bytes, 'n.1'))).toMatchObject({
      versionInfo: snapshot.version,
      typeUrl,
      nonce: 'n.1',
      canary: false,
      controlPlane: { identifier: 'replica-0' },
      resources: [
        { typeUrl, value: Buffer.from('bytes of a') },
        { typeUrl, value: Buffer.from('bytes of b') },
      ],
    });
  });

  it('says how long it is before it is made, whatever the lengths of its resources', () => {
    const around = (length: number) => Array.from({ length: 120 }, (_, i) => length - 100 + i);
    const lengths = [...around(100), ...around(200), ...around(128 ** 2)];
    for (const length of lengths) {
      const snapshot = fleetSnapshot('blue', [
        resource('a', new Uint8Array(length)),
        resource('b', new Uint8Array(9)),
      ]);
      const response = new FleetResponse(snapshot, 'replica-0');
      expect(response.wholeBytes).toBe(response.bytes.length);
    }
  });

  it('shares its bytes between streams', () => {
    const response = new FleetResponse(fleetSnapshot('blue', []), 'replica-0');
    const before = Buffer.from(response.bytes);
    const [one, two] = [withNonce(response.bytes, 'n.1'), withNonce(response.bytes, 'n.2')];
    expect(one.equals(two)).toBe(false);
    expect(before.equals(response.bytes)).toBe(true);
  });

  it.each([
    { room: 0, isOversize: true },
    { room: 64, isOversize: true },
    { room: 256, isOversize: false },
  ])('is oversize by the default limit of clients, nonce included: $room bytes below it', (wanted) => {
    const ofSize = (size: number) =>
      new FleetResponse(fleetSnapshot('blue', [resource('team/a', new Uint8Array(size))]), 'replica-0');
    const large = defaultClientLimitBytes - 1024;
    const frame = ofSize(large).bytes.length - large;
    const response = ofSize(defaultClientLimitBytes - wanted.room - frame);
    expect(response.bytes.length).toBe(defaultClientLimitBytes - wanted.room);
    expect(response.isOversize).toBe(wanted.isOversize);
    expect(withNonce(response.bytes, 'n'.repeat(64)).length > defaultClientLimitBytes).toBe(
      wanted.isOversize,
    );
  });
});
