/** Names of statistics as the Go service writes them. Matching and counting never see these forms. */

const ipv4Like = /(\d{1,3})\.(\d{1,3})\.(\d{1,3})\.(\d{1,3})/g;
// `:` and `|` end a name in statsd, a control character could end the line or fake another one.
// biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what is looked for
const unsafe = /[:|\u0000-\u001f\u007f-\u009f\u2028\u2029]/g;

/**
 * A metric key or domain as part of a name: `:`, `|` and control characters become `_`, and so do the dots
 * inside anything that looks like an IPv4 address. `n_10.0.0.1:8|9` gives `n_10_0_0_1_8_9`.
 */
export function sanitizeMetricKey(key: string): string {
  return key.replace(unsafe, '_').replace(ipv4Like, '$1_$2_$3_$4');
}
