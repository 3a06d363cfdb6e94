/** What one request may consist of. Rows of the table in `settings.ts`. */
import { integer } from '../../process/settings/settings-kinds.ts';
import type { SettingsError, SettingsOf, SettingsTable } from '../../process/settings/settings-reader.ts';
import { RequestBounds, usualRequestLimits } from '../decide/request-bounds.ts';

const mebibyte = 1024 * 1024;

export const requestSettings = {
  requestMaxDescriptors: {
    name: 'REQUEST_MAX_DESCRIPTORS',
    kind: integer({ min: 1, max: 65_536 }),
    default: usualRequestLimits.maxDescriptors,
    summary:
      'Descriptors that a request may have. One with more is refused, with INVALID_ARGUMENT over gRPC and 400 over `/json`, and nothing of it is counted. Not in the Go service.',
  },
  requestMaxEntries: {
    name: 'REQUEST_MAX_ENTRIES',
    kind: integer({ min: 1, max: 65_536 }),
    default: usualRequestLimits.maxEntries,
    summary: 'Entries that a descriptor may have; likewise. Not in the Go service.',
  },
  requestMaxTextBytes: {
    name: 'REQUEST_MAX_TEXT_BYTES',
    kind: integer({ min: 16, max: 4 * mebibyte }),
    default: usualRequestLimits.maxTextBytes,
    summary: 'Bytes that a domain, key or value may have; likewise. Not in the Go service.',
  },
  requestMaxBytes: {
    name: 'REQUEST_MAX_BYTES',
    kind: integer({ min: 1024, max: 4 * mebibyte }),
    default: usualRequestLimits.maxBytes,
    summary:
      'Bytes that a whole request may have, as a message of gRPC or as the body of `/json`, where `HTTP_MAX_BODY_BYTES` holds as well; likewise. Not in the Go service.',
  },
} as const satisfies SettingsTable;

type RequestSettings = SettingsOf<typeof requestSettings>;

export function requestSettingsProblems(settings: Partial<RequestSettings>): SettingsError[] {
  const { requestMaxTextBytes: part = 0, requestMaxBytes: whole = Number.POSITIVE_INFINITY } = settings;
  if (part <= whole) return [];
  const message = `REQUEST_MAX_TEXT_BYTES must be at most REQUEST_MAX_BYTES (${whole}), not ${part}: no part of a request is longer than the whole`;
  return [{ variable: 'REQUEST_MAX_TEXT_BYTES', message }];
}

export function requestBounds(settings: RequestSettings): RequestBounds {
  return new RequestBounds({
    maxDescriptors: settings.requestMaxDescriptors,
    maxEntries: settings.requestMaxEntries,
    maxTextBytes: settings.requestMaxTextBytes,
    maxBytes: settings.requestMaxBytes,
  });
}
