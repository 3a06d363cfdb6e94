import type { FailedLoad } from '../load-outcome.ts';

/** We chose it: enough to mend a rule by, little enough for the status of a Kubernetes object. */
const maxErrors = 10;
const maxLength = 4_096;

/** What a refused response is answered with: the first error in the Go service's words and form, then the others. */
export function refusalMessage({ errors, total }: FailedLoad): string {
  const listed = errors.slice(0, maxErrors).map(({ source, text }) => `${source}: ${text}`);
  const more = total > listed.length ? [`and ${total - listed.length} more errors`] : [];
  const message = [...listed, ...more].join('; ');
  return message.length > maxLength ? `${message.slice(0, maxLength).toWellFormed()}...` : message;
}
