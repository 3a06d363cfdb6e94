import './node-version.ts';

export type * from './api.ts';
export { createLimiter } from './create-limiter.ts';
export { LimiterError } from './limiter-error.ts';
