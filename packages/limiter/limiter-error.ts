import type { LimiterErrorDetails } from './api.ts';

export class LimiterError extends Error implements LimiterErrorDetails {
  override readonly name = 'LimiterError';
  readonly code: LimiterErrorDetails['code'];

  constructor(code: LimiterErrorDetails['code'], message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}
