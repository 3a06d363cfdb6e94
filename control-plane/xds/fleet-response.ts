/**
 * The responses to the limiters of one fleet, in both forms of xDS: a DiscoveryResponse with everything, or a DeltaDiscoveryResponse with
 * the differences from the resources that a limiter has received. Each is encoded once, without its nonce. The fields of a protobuf
 * message may be in any order, so the nonce of each stream is appended to bytes that streams share.
 */
import { BinaryWriter, WireType } from '@bufbuild/protobuf/wire';
import type { Timers } from '../../process/time/clock.ts';
import { type Capabilities, capabilities } from '../../rules/language/capabilities.ts';
import { rateLimitConfigTypeUrl } from '../../rules/reader/resource.ts';
import { emptySnapshot, type FleetSnapshot, type Resource } from '../model/fleet-snapshot.ts';
import { snapshotFor } from '../model/supported-rules.ts';

/** The longest message that clients of gRPC accept unless they are configured otherwise. */
export const defaultClientLimitBytes = 4 * 1024 * 1024;

/** Chosen: longer than the nonce of any stream. */
const nonceRoomBytes = 128;

/** Field numbers of both responses and their messages. `version`, `resources` and `nonce` are the same in both. */
const fields = { version: 1, resources: 2, typeUrl: 4, nonce: 5, controlPlane: 6 } as const;
const deltaFields = { removedResources: 6, controlPlane: 7 } as const;
const resourceFields = { version: 1, resource: 2, name: 3 } as const;
const anyFields = { typeUrl: 1, value: 2 } as const;
const controlPlaneFields = { identifier: 1 } as const;

/** The versions of the resources that were sent to a limiter, by name. */
export type ResourceVersions = ReadonlyMap<string, string>;

/** The resources that a limiter has received. If these are all resources of a snapshot, the snapshot's own list. */
export type SentResources = ResourceVersions | readonly Resource[];

export function versionsOf(reported: SentResources): ResourceVersions {
  return 'get' in reported ? reported : new Map(reported.map(({ name, hash }) => [name, hash]));
}

/** The resources of a limiter that has received nothing. There is only one such map, so that all these limiters share their response. */
export const nothingSent: ResourceVersions = new Map();

/** The differences between a snapshot and the resources that were reported. */
export interface SnapshotChange {
  resources: readonly Resource[];
  /** Names of removed resources. */
  removed: readonly string[];
}

/** The responses to the limiters of one fleet. Each is made when the first limiter needs it. */
export class FleetResponse {
  readonly fleet: string;
  readonly version: string;
  /** Resources, sorted by name. */
  readonly resources: readonly Resource[];
  /** The size of the response with everything in the state-of-the-world form, without the nonce. */
  readonly wholeBytes: number;
  readonly #snapshot: FleetSnapshot;
  readonly #replicaName: string;
  readonly #changes = new WeakMap<SentResources, Uint8Array>();
  #whole: Uint8Array | undefined;
  #versions: ResourceVersions | undefined;

  /** `replicaName` shows on the wire which replica sent the response. */
  constructor(snapshot: FleetSnapshot, replicaName: string) {
    this.fleet = snapshot.fleet;
    this.version = snapshot.version;
    this.resources = snapshot.resources;
    this.#snapshot = snapshot;
    this.#replicaName = replicaName;
    const framing = encodeWhole({ ...snapshot, resources: [] }, replicaName).length;
    this.wholeBytes = snapshot.resources.reduce((sum, { bytes }) => sum + anyBytes(bytes.length), framing);
  }

  /** Returns whether clients with the default limit reject it unread. */
  get isOversize(): boolean {
    return this.wholeBytes + nonceRoomBytes > defaultClientLimitBytes;
  }

  /** A DiscoveryResponse without its nonce. */
  get bytes(): Uint8Array {
    this.#whole ??= encodeWhole(this.#snapshot, this.#replicaName);
    return this.#whole;
  }

  get versions(): ResourceVersions {
    this.#versions ??= versionsOf(this.resources);
    return this.#versions;
  }

  /** Returns a DeltaDiscoveryResponse without its nonce, for a limiter that has all resources and was sent these. */
  changeSince(reported: SentResources): Uint8Array {
    let bytes = this.#changes.get(reported);
    if (bytes === undefined) {
      bytes = this.encodeChange(this.#changeSince(reported));
      this.#changes.set(reported, bytes);
    }
    return bytes;
  }

  /** Returns the same for a limiter that has the resources of these names. A name that does not exist is removed, once. */
  changeOf(names: ReadonlySet<string>, reported: ResourceVersions): Uint8Array {
    const resources = this.#snapshot.resources.filter(
      ({ name, hash }) => names.has(name) && reported.get(name) !== hash,
    );
    const removed = [...names].filter((name) => !this.versions.has(name) && reported.get(name) !== '');
    return this.encodeChange({ resources, removed });
  }

  encodeChange({ resources, removed }: SnapshotChange): Uint8Array {
    const writer = new BinaryWriter();
    writer.tag(fields.version, WireType.LengthDelimited).string(this.version);
    for (const { name, hash, bytes } of resources) {
      writer.tag(fields.resources, WireType.LengthDelimited).fork();
      writer.tag(resourceFields.version, WireType.LengthDelimited).string(hash);
      writeAny(writer, resourceFields.resource, bytes);
      writer.tag(resourceFields.name, WireType.LengthDelimited).string(name).join();
    }
    for (const name of removed) {
      writer.tag(deltaFields.removedResources, WireType.LengthDelimited).string(name);
    }
    return finish(writer, deltaFields.controlPlane, this.#replicaName);
  }

  #changeSince(reported: SentResources): SnapshotChange {
    if (!('get' in reported)) return changeBetween(reported, this.resources);
    return {
      resources: this.#snapshot.resources.filter(({ name, hash }) => reported.get(name) !== hash),
      removed: [...reported.keys()].filter((name) => !this.versions.has(name)),
    };
  }
}

/** Both are sorted by name. */
function changeBetween(before: readonly Resource[], now: readonly Resource[]): SnapshotChange {
  const resources: Resource[] = [];
  const removed: string[] = [];
  let at = 0;
  for (const resource of now) {
    while (at < before.length && before[at]!.name < resource.name) removed.push(before[at++]!.name);
    const known = before[at]?.name === resource.name ? before[at++] : undefined;
    if (known?.hash !== resource.hash) resources.push(resource);
  }
  return { resources, removed: [...removed, ...before.slice(at).map(({ name }) => name)] };
}

function encodeWhole({ version, resources }: FleetSnapshot, replicaName: string): Uint8Array {
  const writer = new BinaryWriter();
  writer.tag(fields.version, WireType.LengthDelimited).string(version);
  for (const { bytes } of resources) writeAny(writer, fields.resources, bytes);
  return finish(writer, fields.controlPlane, replicaName);
}

function finish(writer: BinaryWriter, controlPlaneField: number, replicaName: string): Uint8Array {
  writer.tag(fields.typeUrl, WireType.LengthDelimited).string(rateLimitConfigTypeUrl);
  writer.tag(controlPlaneField, WireType.LengthDelimited).fork();
  writer.tag(controlPlaneFields.identifier, WireType.LengthDelimited).string(replicaName).join();
  return writer.finish();
}

function writeAny(writer: BinaryWriter, field: number, bytes: Uint8Array): void {
  writer.tag(field, WireType.LengthDelimited).fork();
  writer.tag(anyFields.typeUrl, WireType.LengthDelimited).string(rateLimitConfigTypeUrl);
  writer.tag(anyFields.value, WireType.LengthDelimited).bytes(bytes).join();
}

/** Returns the number of bytes that `writeAny` writes for a value of this length. */
function anyBytes(length: number): number {
  const any = 2 + rateLimitConfigTypeUrl.length + 1 + varintBytes(length) + length;
  return 1 + varintBytes(any) + any;
}

function varintBytes(value: number): number {
  return value < 0x80 ? 1 : 1 + varintBytes(Math.floor(value / 0x80));
}

/** Returns the message for one stream. It copies the shared bytes, because the transport takes whole messages. */
export function withNonce(bytes: Uint8Array, nonce: string): Buffer {
  const writer = new BinaryWriter();
  return Buffer.concat([bytes, writer.tag(fields.nonce, WireType.LengthDelimited).string(nonce).finish()]);
}

interface ServedResponses {
  snapshot: FleetSnapshot;
  /** Responses by version. Limiters with the same capabilities share one. */
  byVersion: Map<string, FleetResponse>;
}

/** The responses to all fleets. Empty until the first `update`. */
export class FleetResponses {
  readonly #replicaName: string;
  readonly #empty: FleetResponse;
  #fleets: ReadonlyMap<string, ServedResponses> | undefined;
  #before: ReadonlyMap<string, ServedResponses> = new Map();

  constructor(replicaName: string) {
    this.#replicaName = replicaName;
    this.#empty = new FleetResponse(emptySnapshot, replicaName);
  }

  /** Returns the new responses for limiters with all capabilities. Call `forget` once the limiters have asked for theirs. */
  update(fleets: ReadonlyMap<string, FleetSnapshot>): FleetResponse[] {
    this.#before = this.#fleets ?? new Map();
    this.#fleets = new Map(
      [...fleets].map(([fleet, snapshot]) => [fleet, { snapshot, byVersion: new Map() }]),
    );
    return [...fleets.keys()].flatMap((fleet) => {
      const response = this.get(fleet)!;
      return this.#before.get(fleet)?.byVersion.has(response.version) ? [] : response;
    });
  }

  /** Drops responses that no limiter has needed since the last `update`. */
  forget(): void {
    this.#before = new Map();
  }

  /**
   * Returns the response for limiters with these capabilities, by default with all. Empty for a fleet without rules. Undefined
   * before the first update.
   */
  get(fleet: string, has: Capabilities = capabilities): FleetResponse | undefined {
    if (this.#fleets === undefined) return undefined;
    const known = this.#fleets.get(fleet);
    if (known === undefined) return this.#empty;
    const served = snapshotFor(known.snapshot, has);
    const { version } = served;
    const same = known.byVersion.get(version) ?? this.#before.get(fleet)?.byVersion.get(version);
    const response = same ?? new FleetResponse(served, this.#replicaName);
    known.byVersion.set(version, response);
    return response;
  }
}

export interface Sender {
  /** The number of bytes that it would send now. 0 if nothing is due any more. */
  dueBytes(): number;
  /** Called when its turn comes. It calls `taken` when the transport has accepted everything, or never if the stream has ended. */
  send(taken: () => void): void;
}

export interface SendTurnsOptions {
  timers: Timers;
  /** The maximum size of all responses. A single response may exceed it. */
  maxBytes: number;
  /** How long a response counts that the client does not read. */
  patienceMs: number;
}

/**
 * Bounds the responses that wait in memory for the network. A response is copied for its stream when its turn comes, and freed when the
 * transport has accepted all of it. A client that does not read stops counting toward the bound after a moment, so that no other client
 * waits for it. The stream itself ends clients that stay slow.
 */
export class SendTurns {
  readonly #options: SendTurnsOptions;
  /** Senders in the order of their requests. */
  readonly #waiting = new Set<Sender>();
  #bufferedBytes = 0;
  #isRunning = false;

  constructor(options: SendTurnsOptions) {
    this.#options = options;
  }

  /** Requests a turn. A repeated request before the turn has no effect. */
  ask(sender: Sender): void {
    this.#waiting.add(sender);
    this.#run();
  }

  #run(): void {
    if (this.#isRunning) return;
    this.#isRunning = true;
    try {
      for (const sender of this.#waiting) {
        const bytes = sender.dueBytes();
        if (this.#bufferedBytes > 0 && this.#bufferedBytes + bytes > this.#options.maxBytes) break;
        this.#waiting.delete(sender);
        if (bytes > 0) sender.send(this.#hold(bytes));
      }
    } finally {
      this.#isRunning = false;
    }
  }

  /** Returns a function that releases them, once. */
  #hold(bytes: number): () => void {
    let isHeld = true;
    const release = (): void => {
      if (!isHeld) return;
      isHeld = false;
      callOff();
      this.#bufferedBytes -= bytes;
      this.#run();
    };
    this.#bufferedBytes += bytes;
    const callOff = this.#options.timers.after(this.#options.patienceMs, release);
    return release;
  }
}
