/** What is served to the limiters of each fleet, as bytes, and when each stream has its turn to send them. */
import { BinaryWriter, WireType } from '@bufbuild/protobuf/wire';
import type { Timers } from '../../process/time/clock.ts';
import { rateLimitConfigTypeUrl } from '../../rules/xds/resource.ts';
import { type FleetSnapshot, fleetSnapshot } from '../model/fleet-snapshot.ts';

/** The longest message that clients of gRPC take unless they are told otherwise. */
export const usualClientLimitBytes = 4 * 1024 * 1024;

/** Chosen: more than the nonce of any stream takes. */
const nonceRoomBytes = 128;

/**
 * The answer to every limiter of one fleet, encoded once: a DiscoveryResponse without its nonce. Fields of a protobuf
 * message may follow each other in any order, so the nonce of each stream is appended to bytes that all streams share.
 */
export interface FleetResponse {
  fleet: string;
  version: string;
  resources: number;
  /** Without the nonce. */
  bytes: Uint8Array;
  /** Whether clients with the usual limit refuse it unread. */
  isOversize: boolean;
}

/** Numbers of DiscoveryResponse's fields, and of those of its messages. */
const fields = { version: 1, resources: 2, typeUrl: 4, nonce: 5, controlPlane: 6 } as const;
const anyFields = { typeUrl: 1, value: 2 } as const;
const controlPlaneFields = { identifier: 1 } as const;

/** `replicaName` tells who reads the answer on the wire which replica gave it. */
export function fleetResponse(snapshot: FleetSnapshot, replicaName: string): FleetResponse {
  const { fleet, version, resources } = snapshot;
  const writer = new BinaryWriter();
  writer.tag(fields.version, WireType.LengthDelimited).string(version);
  for (const { bytes } of resources) {
    writer.tag(fields.resources, WireType.LengthDelimited).fork();
    writer.tag(anyFields.typeUrl, WireType.LengthDelimited).string(rateLimitConfigTypeUrl);
    writer.tag(anyFields.value, WireType.LengthDelimited).bytes(bytes).join();
  }
  writer.tag(fields.typeUrl, WireType.LengthDelimited).string(rateLimitConfigTypeUrl);
  writer.tag(fields.controlPlane, WireType.LengthDelimited).fork();
  writer.tag(controlPlaneFields.identifier, WireType.LengthDelimited).string(replicaName).join();
  const bytes = writer.finish();
  const isOversize = bytes.length + nonceRoomBytes > usualClientLimitBytes;
  return { fleet, version, resources: resources.length, bytes, isOversize };
}

/** What goes to one stream. Copies the shared bytes: the transport takes whole messages. */
export function withNonce({ bytes }: FleetResponse, nonce: string): Buffer {
  const writer = new BinaryWriter();
  return Buffer.concat([bytes, writer.tag(fields.nonce, WireType.LengthDelimited).string(nonce).finish()]);
}

/** What is served to every fleet. Knows nothing until the first `update`. */
export class FleetResponses {
  readonly #replicaName: string;
  readonly #empty: FleetResponse;
  #responses: ReadonlyMap<string, FleetResponse> | undefined;

  constructor(replicaName: string) {
    this.#replicaName = replicaName;
    this.#empty = fleetResponse(fleetSnapshot('', []), replicaName);
  }

  /** Encodes what changed, and returns that. */
  update(fleets: ReadonlyMap<string, FleetSnapshot>): FleetResponse[] {
    const next = new Map<string, FleetResponse>();
    const changed: FleetResponse[] = [];
    for (const [fleet, snapshot] of fleets) {
      const before = this.#responses?.get(fleet);
      const response =
        before?.version === snapshot.version ? before : fleetResponse(snapshot, this.#replicaName);
      if (response !== before) changed.push(response);
      next.set(fleet, response);
    }
    this.#responses = next;
    return changed;
  }

  /** Of a fleet that nothing is served to: no rules. Undefined before the first update. */
  get(fleet: string): FleetResponse | undefined {
    return this.#responses === undefined ? undefined : (this.#responses.get(fleet) ?? this.#empty);
  }
}

export interface Sender {
  /** Of what it would send now; 0 when nothing is due any more. */
  dueBytes(): number;
  /** Its turn; calls `taken` when the transport took everything, or not at all where the stream is gone. */
  send(taken: () => void): void;
}

export interface SendTurnsOptions {
  timers: Timers;
  /** One response may go beyond it alone. */
  maxBytes: number;
  /** How long a response counts that is not taken. */
  patienceMs: number;
}

/**
 * Bounds what waits in memory for the network: a response is copied for its stream when its turn has come, and is
 * free again when the transport took all of it. Who does not read loses its hold on the bound after a moment, so that
 * nobody waits for the slow; that nobody is slow for ever is up to the stream.
 */
export class SendTurns {
  readonly #options: SendTurnsOptions;
  /** In the order in which they asked. */
  readonly #waiting = new Set<Sender>();
  #heldBytes = 0;
  #isRunning = false;

  constructor(options: SendTurnsOptions) {
    this.#options = options;
  }

  /** Asking again before the turn changes nothing. */
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
        if (this.#heldBytes > 0 && this.#heldBytes + bytes > this.#options.maxBytes) break;
        this.#waiting.delete(sender);
        if (bytes > 0) sender.send(this.#hold(bytes));
      }
    } finally {
      this.#isRunning = false;
    }
  }

  /** Returns what lets go of them, once. */
  #hold(bytes: number): () => void {
    let isHeld = true;
    const release = (): void => {
      if (!isHeld) return;
      isHeld = false;
      callOff();
      this.#heldBytes -= bytes;
      this.#run();
    };
    this.#heldBytes += bytes;
    const callOff = this.#options.timers.after(this.#options.patienceMs, release);
    return release;
  }
}
