import { runLimiter } from '../limiter/main.ts';

/** Settings of `npm start`. Variables of the environment take precedence. */
const demoSettings = {
  BACKEND_TYPE: 'memory',
  COUNTER_KEYS: 'unambiguous',
  // At this level, the limiter logs each load of rules.
  LOG_LEVEL: 'info',
  // Callers need no credentials, so only this machine may make changes.
  DEBUG_HOST: '127.0.0.1',
};

/** The default folder of rules, unless they come from a control plane. */
const demoFolder = { RUNTIME_ROOT: 'examples', RUNTIME_APPDIRECTORY: 'rules', RUNTIME_WATCH_ROOT: 'false' };

const question = '{"domain":"shop","descriptors":[[{"remote_address":"203.0.113.7"}]]}';

/** Each of these settings selects a receiver of statistics. Without one of them, nothing receives statistics. */
const sinkSettings =
  /^(?:USE_(?:DOG_STATSD|STATSD|PROMETHEUS|PUSHSTATS|TAGGEDSTATS|PULLSTATS)|DISABLE_STATS)$/;

/** Runs a limiter with the example rules until it is stopped. Prints how to query it. */
export async function startDemo(): Promise<void> {
  const env = demoEnvironment(process.env);
  const status = await runLimiter({
    env,
    onListening: ({ grpc, http, debug }) => {
      console.log(`
Listening: gRPC on ${grpc.port}, HTTP on ${http.port}, debug on ${debug?.port ?? 'no port'}.
Rules: ${rulesText(env)}
${hintText(env, { http: http.port, debug: debug?.port })}
`);
    },
  });
  process.exit(status);
}

/** Returns the settings of `npm start` in this environment. */
export function demoEnvironment(given: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  const choosesSink = Object.keys(given).some((name) => sinkSettings.test(name));
  const noSink = choosesSink ? {} : { DISABLE_STATS: 'true' };
  const folder = isXds(given) ? {} : demoFolder;
  return { ...demoSettings, ...folder, ...noSink, ...given };
}

/** Returns a hint: for the example rules, how to send a request; for other rules, where to see them. */
function hintText(env: NodeJS.ProcessEnv, ports: { http: number; debug: number | undefined }): string {
  if (isXds(env) || isDemoFolder(env)) {
    return `Send this request until the answer is 429:

  curl -i --json '${question}' http://localhost:${ports.http}/v1/check`;
  }
  const lines = [`  bin/weir explain ${rulesFolder(env)} <domain> <key>=<value>`];
  if (ports.debug !== undefined) lines.unshift(`  curl http://localhost:${ports.debug}/rlconfig`);
  return ['To show the loaded rules, and the rule that applies to a request, run:', '', ...lines].join('\n');
}

function isXds(env: NodeJS.ProcessEnv): boolean {
  return (env['CONFIG_TYPE'] ?? '').toUpperCase().startsWith('GRPC_XDS');
}

/** Whether the rules are those that come with `npm start`. */
function isDemoFolder(env: NodeJS.ProcessEnv): boolean {
  const names = ['RUNTIME_ROOT', 'RUNTIME_SUBDIRECTORY', 'RUNTIME_APPDIRECTORY'] as const;
  const demo: NodeJS.ProcessEnv = demoFolder;
  return names.every((name) => (env[name] ?? '') === (demo[name] ?? ''));
}

function rulesFolder(env: NodeJS.ProcessEnv): string {
  const folders = [env['RUNTIME_ROOT'], env['RUNTIME_SUBDIRECTORY'], env['RUNTIME_APPDIRECTORY']];
  return folders.filter((folder) => folder !== undefined && folder !== '').join('/');
}

function rulesText(env: NodeJS.ProcessEnv): string {
  if (isXds(env)) {
    return `from the control plane at ${env['CONFIG_GRPC_XDS_SERVER_URL'] ?? 'localhost:18000'}.`;
  }
  const limits = isDemoFolder(env)
    ? ' (unless you changed them, 5 requests per minute for each address)'
    : '';
  return `${rulesFolder(env)}/${limits}. The limiter reloads them when you change them.`;
}
