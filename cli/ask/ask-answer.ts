import {
  RateLimitResponse_Code as Code,
  type RateLimitResponse_DescriptorStatus as DescriptorStatus,
  type RateLimitRequest,
  type RateLimitResponse,
} from '../../gen/envoy/service/ratelimit/v3/rls_pb.ts';
import { maxUint32, unitName } from '../../rules/model.ts';
import { perUnit } from '../shared/unit-words.ts';

/** The answer for a person: the overall code, then a line for each descriptor. */
export function describeAnswer(request: RateLimitRequest, response: RateLimitResponse): string {
  const lines = [codeName(response.overallCode)];
  response.statuses.forEach((status, index) => {
    const entries = request.descriptors[index]?.entries ?? [];
    const descriptor = entries.map(({ key, value }) => `${key}=${value}`).join(',');
    lines.push(`  ${descriptor}: ${codeName(status.code)}, ${describeLimit(status)}`);
  });
  const headers = [...response.responseHeadersToAdd, ...response.requestHeadersToAdd];
  for (const { key, value } of headers) lines.push(`  ${key}: ${value}`);
  return `${lines.join('\n')}\n`;
}

function describeLimit(status: DescriptorStatus): string {
  const limit = status.currentLimit;
  if (limit === undefined) {
    return status.limitRemaining === maxUint32 ? 'unlimited' : 'no rule limits it ("weir explain" tells why)';
  }
  const name = limit.name === '' ? '' : ` (${limit.name})`;
  const unit = perUnit(unitName(limit.unit) ?? `unit ${limit.unit}`);
  const reset =
    status.durationUntilReset === undefined ? '' : `, resets in ${status.durationUntilReset.seconds} s`;
  return `${status.limitRemaining} of ${limit.requestsPerUnit} ${unit} left${name}${reset}`;
}

function codeName(code: Code): string {
  if (code === Code.OK) return 'OK';
  return code === Code.OVER_LIMIT ? 'OVER_LIMIT' : `code ${code}`;
}
