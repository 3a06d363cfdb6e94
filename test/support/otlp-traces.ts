/**
 * Reads the message ExportTraceServiceRequest as far as tests look at it, by field number.
 * https://github.com/open-telemetry/opentelemetry-proto/blob/v1.5.0/opentelemetry/proto/trace/v1/trace.proto
 */
import { BinaryReader, WireType } from '@bufbuild/protobuf/wire';

export interface ReceivedSpan {
  name: string;
  traceId: string;
  spanId: string;
  parentSpanId: string;
  traceState: string;
  /** 2: server, 3: client. */
  kind: number;
  attributes: Record<string, unknown>;
  links: { traceId: string; spanId: string }[];
  /** 0: unset, 2: error. */
  status: number;
  statusMessage: string;
  /** Between start and end. */
  durationMs: number;
  resource: Record<string, unknown>;
}

type Fields = ReadonlyMap<number, unknown[]>;

export function readTraces(request: Uint8Array): ReceivedSpan[] {
  return messages(request, 1).flatMap((resourceSpans) => {
    const [resource] = messages(resourceSpans, 1);
    const attributes = resource === undefined ? {} : attributesOf(resource, 1);
    return messages(resourceSpans, 2)
      .flatMap((scopeSpans) => messages(scopeSpans, 2))
      .map((span) => ({ ...readSpan(span), resource: attributes }));
  });
}

function readSpan(bytes: Uint8Array): Omit<ReceivedSpan, 'resource'> {
  const fields = fieldsOf(bytes);
  const [status] = messages(bytes, 15);
  return {
    traceId: hex(fields, 1),
    spanId: hex(fields, 2),
    traceState: text(fields, 3),
    parentSpanId: hex(fields, 4),
    name: text(fields, 5),
    kind: Number(fields.get(6)?.[0] ?? 0),
    durationMs: (Number(fields.get(8)?.[0]) - Number(fields.get(7)?.[0])) / 1e6,
    attributes: attributesOf(bytes, 9),
    links: messages(bytes, 13).map((link) => ({
      traceId: hex(fieldsOf(link), 1),
      spanId: hex(fieldsOf(link), 2),
    })),
    status: status === undefined ? 0 : Number(fieldsOf(status).get(3)?.[0] ?? 0),
    statusMessage: status === undefined ? '' : text(fieldsOf(status), 2),
  };
}

function attributesOf(bytes: Uint8Array, field: number): Record<string, unknown> {
  return Object.fromEntries(
    messages(bytes, field).map((pair) => {
      const [value] = messages(pair, 2);
      return [text(fieldsOf(pair), 1), value === undefined ? undefined : plainValue(value)];
    }),
  );
}

/** A string, a boolean or a whole number. */
function plainValue(bytes: Uint8Array): unknown {
  const fields = fieldsOf(bytes);
  if (fields.has(1)) return text(fields, 1);
  if (fields.has(2)) return fields.get(2)?.[0] === 1n;
  return fields.has(3) ? Number(fields.get(3)?.[0]) : undefined;
}

function messages(bytes: Uint8Array, field: number): Uint8Array[] {
  return (fieldsOf(bytes).get(field) ?? []) as Uint8Array[];
}

function fieldsOf(bytes: Uint8Array): Fields {
  const reader = new BinaryReader(bytes);
  const fields = new Map<number, unknown[]>();
  while (reader.pos < reader.len) {
    const [number, wireType] = reader.tag();
    const values = fields.get(number) ?? [];
    fields.set(number, values);
    if (wireType === WireType.LengthDelimited) values.push(reader.bytes());
    else if (wireType === WireType.Varint) values.push(BigInt(reader.uint64()));
    else if (wireType === WireType.Bit64) values.push(BigInt(reader.fixed64()));
    else reader.skip(wireType);
  }
  return fields;
}

function hex(fields: Fields, number: number): string {
  return Buffer.from((fields.get(number)?.[0] ?? []) as Uint8Array).toString('hex');
}

function text(fields: Fields, number: number): string {
  return Buffer.from((fields.get(number)?.[0] ?? []) as Uint8Array).toString();
}
