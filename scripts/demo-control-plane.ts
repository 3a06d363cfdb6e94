import { runControlPlane } from '../control-plane/main.ts';

/** Settings of `npm run control-plane`. Variables of the environment take precedence. */
const demoSettings = {
  SOURCE: 'DIRECTORY',
  MANIFESTS_DIRECTORY: 'examples/manifests',
  // Limiters on this machine need no credentials.
  XDS_HOST: '127.0.0.1',
};

const question = '{"domain":"shop","descriptors":[[{"remote_address":"203.0.113.7"}]]}';

/** Serves the example manifests until it is stopped. Prints how to start a limiter that uses its rules. */
export async function startControlPlaneDemo(): Promise<void> {
  const status = await runControlPlane({
    env: { ...demoSettings, ...process.env },
    onListening: ({ xds, http }) => {
      console.log(`
Listening: xDS on ${xds.port}, HTTP on ${http.port}.
Rules: examples/manifests/. The control plane serves them again when you change them. In another terminal, start a limiter that uses them:

  CONFIG_TYPE=GRPC_XDS_DELTA CONFIG_GRPC_XDS_SERVER_URL=localhost:${xds.port} npm start

Then send a request to the limiter, and show which rules the control plane serves to each limiter:

  curl -i --json '${question}' http://localhost:8080/v1/check
  curl http://localhost:${http.port}/snapshot
`);
    },
  });
  process.exit(status);
}
