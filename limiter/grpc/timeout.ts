const unitMs: Readonly<Record<string, number>> = {
  H: 3_600_000,
  M: 60_000,
  S: 1_000,
  m: 1,
  u: 1e-3,
  n: 1e-6,
};
const digit0 = 0x30;
const digit9 = 0x39;

/**
 * What `grpc-timeout` says: one to eight digits and a unit; undefined when it is not that.
 * https://github.com/grpc/grpc/blob/v1.60.0/doc/PROTOCOL-HTTP2.md
 */
export function timeoutMsOf(text: string): number | undefined {
  const digits = text.length - 1;
  if (digits < 1 || digits > 8) return undefined;
  let value = 0;
  for (let index = 0; index < digits; index++) {
    const code = text.charCodeAt(index);
    if (code < digit0 || code > digit9) return undefined;
    value = value * 10 + code - digit0;
  }
  const unit = unitMs[text[digits]!];
  return unit === undefined ? undefined : value * unit;
}
