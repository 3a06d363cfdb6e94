import { runLimiter } from '../limiter/main.ts';

/** Settings of `npm start`; whatever the environment already says goes before them. */
const demoSettings = {
  BACKEND_TYPE: 'memory',
  RUNTIME_ROOT: 'examples',
  RUNTIME_APPDIRECTORY: 'rules',
  RUNTIME_WATCH_ROOT: 'false',
  // So that it says when it has loaded rules again.
  LOG_LEVEL: 'info',
};

const question =
  '{"domain":"shop","descriptors":[{"entries":[{"key":"remote_address","value":"203.0.113.7"}]}]}';

/** Choosing one of them asks for statistics; without one nobody is there to take them. */
const sinkSettings =
  /^(?:USE_(?:DOG_STATSD|STATSD|PROMETHEUS|PUSHSTATS|TAGGEDSTATS|PULLSTATS)|DISABLE_STATS)$/;

/** Runs a limiter with the example rules until it is stopped, and tells how to ask it. */
export async function startDemo(): Promise<void> {
  const choosesSink = Object.keys(process.env).some((name) => sinkSettings.test(name));
  const noSink = choosesSink ? {} : { DISABLE_STATS: 'true' };
  const env = { ...demoSettings, ...noSink, ...process.env };
  const status = await runLimiter({
    env,
    onListening: ({ grpc, http, debug }) => {
      console.log(`
Listening: gRPC on ${grpc.port}, HTTP on ${http.port}, debug on ${debug?.port ?? 'no port'}.
Rules: ${rulesText(env)}
Ask it, and again until the answer is 429:

  curl -i http://localhost:${http.port}/json -d '${question}'
`);
    },
  });
  process.exit(status);
}

function rulesText(env: NodeJS.ProcessEnv): string {
  if (env['CONFIG_TYPE']?.toUpperCase() === 'GRPC_XDS_SOTW') {
    return `from the control plane at ${env['CONFIG_GRPC_XDS_SERVER_URL'] ?? 'localhost:18000'}.`;
  }
  return `${env['RUNTIME_ROOT']}/${env['RUNTIME_APPDIRECTORY']}/ (5 requests a minute for each address, unless you \
changed them); they are loaded again when you change them.`;
}
