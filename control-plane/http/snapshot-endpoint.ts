/** `/snapshot`: text, or JSON with `?format=json` or `Accept: application/json`; `?fleet=` shows one fleet alone. */
import type { HttpCall } from '../../process/http/http-server.ts';
import { sendLines } from '../../process/http/line-stream.ts';
import { sendError } from '../../process/http/text-response.ts';
import type { ControlPlaneView } from './control-plane-view.ts';
import { fleetPages } from './snapshot-fleets.ts';
import { snapshotJson } from './snapshot-json.ts';
import { snapshotText } from './snapshot-page.ts';

export async function answerSnapshot(call: HttpCall, view: ControlPlaneView): Promise<void> {
  const { target, request, response } = call;
  response.setHeader('Vary', 'Accept');
  const format = target.query.get('format') ?? acceptedFormat(request.headers.accept ?? '');
  if (format !== 'json' && format !== 'text') {
    sendError(response, 400, `format must be text or json, not ${JSON.stringify(format)}`);
    return;
  }
  const wanted = target.query.get('fleet');
  const fleets = fleetPages(view, wanted ?? undefined);
  if (wanted !== null && fleets.length === 0) {
    sendError(response, 404, `fleet ${JSON.stringify(wanted)} has neither limiters nor RateLimitConfigs`);
  } else if (format === 'json') await sendLines(response, snapshotJson(view, fleets), 'application/json');
  else await sendLines(response, snapshotText(view, fleets));
}

/** JSON for who names it, text for browsers and any type. RFC 9110, section 12.5.1; weights other than 0 do not matter. */
function acceptedFormat(accept: string): 'json' | 'text' {
  const namesJson = accept
    .split(',')
    .some((range) => /^\s*application\/json\s*(;|$)/i.test(range) && !/;\s*q=0(\.0*)?\s*(;|$)/i.test(range));
  return namesJson ? 'json' : 'text';
}
