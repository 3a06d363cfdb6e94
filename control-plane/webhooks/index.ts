/** Signed notifications for receivers (Standard Webhooks), and the lookup of the secret they verify with. */
export type { EndpointStatus } from './endpoint-delivery.ts';
export { webhookUrlProblem } from './endpoint-url.ts';
export {
  type LookupRefusal,
  openSecretApi,
  type SecretApiListener,
  type SecretApiOptions,
  secretPath,
} from './secret-api.ts';
export type { SecretPlace } from './secret-place.ts';
export { parseSigningSecrets, SecretError, signingSecretProblem } from './signing-secret.ts';
export { type Delivery, type VerifyOptions, type VerifyResult, verifyDelivery } from './verify-delivery.ts';
export { type StatusChange, type WebhookEvent, webhookEvents } from './webhook-event.ts';
export type { DropReason, EventName, WebhookListener } from './webhook-listener.ts';
export { openWebhooks, type Webhooks, type WebhooksOptions } from './webhooks.ts';
