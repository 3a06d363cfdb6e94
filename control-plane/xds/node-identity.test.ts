import { create, type MessageInitShape } from '@bufbuild/protobuf';
import { describe, expect, it } from 'vitest';
import { NodeSchema } from '../../gen/envoy/config/core/v3/base_pb.ts';
import { nodeIdentity } from './limiter-report.ts';

const peer = '10.0.0.7:41000';
const identityOf = (node: MessageInitShape<typeof NodeSchema>) =>
  nodeIdentity(create(NodeSchema, node), peer);

describe('nodeIdentity', () => {
  it('names a limiter of this project by its pod', () => {
    const metadata = { pod: 'limiter-7', fleet: 'blue', instance: 'abc' };
    expect(identityOf({ id: 'default', metadata, userAgentName: 'weir' })).toEqual({
      name: 'limiter-7',
      fleet: 'blue',
      instance: 'abc',
      isWeir: true,
      countsCompatibly: true,
      capabilities: [],
    });
  });

  it('names another limiter by its node id and its address', () => {
    expect(identityOf({ id: 'default', userAgentName: 'envoy' })).toEqual({
      name: 'default (10.0.0.7:41000)',
      fleet: 'default',
      instance: undefined,
      isWeir: false,
      countsCompatibly: true,
      capabilities: [],
    });
  });

  it('names a limiter without a node by its address', () => {
    expect(nodeIdentity(undefined, peer)).toMatchObject({ name: peer, fleet: 'default' });
  });

  it.each([
    [{ counter_keys: 'unambiguous' }, false],
    [{ counter_keys: 'compatible' }, true],
    [{ counter_keys: 7 }, true],
    [{}, true],
  ])('takes a limiter with %j for one that counts compatibly: %j', (metadata, countsCompatibly) => {
    expect(identityOf({ id: 'default', metadata })).toMatchObject({ countsCompatibly });
  });

  it.each([
    [{ capabilities: ['windows'] }, ['windows']],
    [{ capabilities: ['reserve', 'a newer one', 'windows', 'windows', 7, null] }, ['windows', 'reserve']],
    [{ capabilities: 'windows' }, []],
    [{ capabilities: { windows: true } }, []],
    [{}, []],
  ])('of a limiter with %j has the capabilities %j', (metadata, capabilities) => {
    expect(identityOf({ id: 'default', metadata })).toMatchObject({ capabilities });
  });

  const never = { reservations: 'REDIS_SCRIPTS=never keeps none' };
  const support = { admission: undefined, groups: undefined, calendarMonths: false, ...never };
  it.each([
    [never, support],
    [
      { ...never, calendarMonths: true, later: 'x' },
      { ...support, calendarMonths: true },
    ],
    [
      { reservations: `a\n${'b'.repeat(400)}` },
      { ...support, reservations: expect.stringMatching(/^a\\u000ab{200,}/) },
    ],
    [{ reservations: 7 }, undefined],
    ['REDIS_SCRIPTS=never', undefined],
    [undefined, undefined],
  ])('reads what a limiter says of rules that it never obeys: %j', (given, ruleSupport) => {
    const metadata = given === undefined ? {} : { rule_support: given };
    const identity = identityOf({ id: 'default', metadata });
    expect('ruleSupport' in identity ? identity.ruleSupport : undefined).toEqual(ruleSupport);
  });

  it('shortens names', () => {
    expect(identityOf({ metadata: { pod: 'p'.repeat(300) } })).toMatchObject({
      name: `${'p'.repeat(253)}...`,
    });
  });

  it.each(['pod', 'instance'])('passes over a %s that is no text', (key) => {
    expect(identityOf({ id: 'n', metadata: { [key]: 7 } })).toMatchObject({
      name: `n (${peer})`,
      instance: undefined,
    });
  });

  it.each(['pod', 'instance'])('passes over an empty %s', (key) => {
    expect(identityOf({ id: 'n', metadata: { [key]: '' } })).toMatchObject({
      name: `n (${peer})`,
      instance: undefined,
    });
  });

  it('takes an empty fleet for the default one', () => {
    expect(identityOf({ metadata: { fleet: '' } })).toMatchObject({ fleet: 'default' });
  });

  it('rejects a fleet that is no text', () => {
    expect(identityOf({ metadata: { fleet: ['blue'] } })).toEqual({
      problem: 'the node metadata "fleet" is not a string',
    });
  });

  it.each(['Blue', 'a b', '-a', 'a'.repeat(64)])('rejects the fleet %j', (fleet) => {
    expect(identityOf({ metadata: { fleet } })).toEqual({
      problem: `the node metadata "fleet" is not a DNS label of at most 63 lower case letters, digits and inner hyphens: "${fleet}"`,
    });
  });
});
