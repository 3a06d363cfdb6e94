import { runLimiter } from '../limiter/main.ts';

/** Settings of `npm start`; whatever the environment already says goes before them. */
const demoSettings = {
  BACKEND_TYPE: 'memory',
  USE_STATSD: 'false',
  RUNTIME_ROOT: 'examples',
  RUNTIME_APPDIRECTORY: 'rules',
  RUNTIME_WATCH_ROOT: 'false',
  // So that it says when it has loaded rules again.
  LOG_LEVEL: 'info',
};

const question =
  '{"domain":"shop","descriptors":[{"entries":[{"key":"remote_address","value":"203.0.113.7"}]}]}';

/** Runs a limiter with the example rules until it is stopped, and tells how to ask it. */
export async function startDemo(): Promise<void> {
  const status = await runLimiter({
    env: { ...demoSettings, ...process.env },
    onListening: ({ grpc, http, debug }) => {
      console.log(`
Listening: gRPC on ${grpc.port}, HTTP on ${http.port}, debug on ${debug?.port ?? 'no port'}.
Rules: examples/rules/ (5 requests a minute for each address); they are loaded again when you change them.
Ask it, and again until the answer is 429:

  curl -i http://localhost:${http.port}/json -d '${question}'
`);
    },
  });
  process.exit(status);
}
