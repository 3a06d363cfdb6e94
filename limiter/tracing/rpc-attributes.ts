/**
 * Names of the attributes of a call's span. https://opentelemetry.io/docs/specs/semconv/rpc/rpc-spans/
 *
 *                 rpc.system.name  rpc.system  rpc.service  rpc.method              rpc.response.status_code
 *   stable        grpc             -           -            service/method          OK
 *   rpc/old       -                grpc        service      method                  OK
 *   rpc/dup       grpc             grpc        service      service/method          OK
 *
 * `rpc.grpc.status_code`, a number, is never there.
 */
export type RpcConvention = 'stable' | 'old' | 'dup';

/** What OTEL_SEMCONV_STABILITY_OPT_IN says; words for other kinds of spans stand beside ours. */
export function rpcConvention(optIn: string): RpcConvention {
  const words = optIn.split(',').map((word) => word.trim());
  if (words.includes('rpc/dup')) return 'dup';
  return words.includes('rpc/old') ? 'old' : 'stable';
}

/** `path` is `/package.Service/Method`. */
export function rpcAttributes(path: string, convention: RpcConvention): Record<string, string> {
  const fullMethod = path.slice(1);
  const slash = fullMethod.lastIndexOf('/');
  const service = fullMethod.slice(0, slash);
  if (convention === 'old') {
    return { 'rpc.system': 'grpc', 'rpc.service': service, 'rpc.method': fullMethod.slice(slash + 1) };
  }
  const stable = { 'rpc.system.name': 'grpc', 'rpc.method': fullMethod };
  return convention === 'stable' ? stable : { ...stable, 'rpc.system': 'grpc', 'rpc.service': service };
}

/** By number. https://github.com/grpc/grpc/blob/v1.60.0/doc/statuscodes.md */
const statusNames = [
  'OK',
  'CANCELLED',
  'UNKNOWN',
  'INVALID_ARGUMENT',
  'DEADLINE_EXCEEDED',
  'NOT_FOUND',
  'ALREADY_EXISTS',
  'PERMISSION_DENIED',
  'RESOURCE_EXHAUSTED',
  'FAILED_PRECONDITION',
  'ABORTED',
  'OUT_OF_RANGE',
  'UNIMPLEMENTED',
  'INTERNAL',
  'UNAVAILABLE',
  'DATA_LOSS',
  'UNAUTHENTICATED',
];

/** Those by which the server is at fault. */
const serverFaults: ReadonlySet<string> = new Set([
  'UNKNOWN',
  'DEADLINE_EXCEEDED',
  'UNIMPLEMENTED',
  'INTERNAL',
  'UNAVAILABLE',
  'DATA_LOSS',
]);

export function rpcStatus(code: number): { name: string; isFault: boolean } {
  const name = statusNames[code] ?? String(code);
  return { name, isFault: serverFaults.has(name) };
}
