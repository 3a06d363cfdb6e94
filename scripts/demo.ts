import { runLimiter } from '../limiter/main.ts';

/** Settings of `npm start`; whatever the environment already says goes before them. */
const demoSettings = {
  BACKEND_TYPE: 'memory',
  COUNTER_KEYS: 'unambiguous',
  // At this level it logs each load of rules.
  LOG_LEVEL: 'info',
  // Nobody is asked who he is, so that changes are taken here alone.
  DEBUG_HOST: '127.0.0.1',
};

/** Of its rules, unless they come from a control plane. */
const demoFolder = { RUNTIME_ROOT: 'examples', RUNTIME_APPDIRECTORY: 'rules', RUNTIME_WATCH_ROOT: 'false' };

const question = '{"domain":"shop","descriptors":[[{"remote_address":"203.0.113.7"}]]}';

/** Choosing one of them asks for statistics; without one nobody is there to take them. */
const sinkSettings =
  /^(?:USE_(?:DOG_STATSD|STATSD|PROMETHEUS|PUSHSTATS|TAGGEDSTATS|PULLSTATS)|DISABLE_STATS)$/;

/** Runs a limiter with the example rules until it is stopped, and says how to ask it. */
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

/** The settings of `npm start` in this environment. */
export function demoEnvironment(given: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  const choosesSink = Object.keys(given).some((name) => sinkSettings.test(name));
  const noSink = choosesSink ? {} : { DISABLE_STATS: 'true' };
  const folder = isXds(given) ? {} : demoFolder;
  return { ...demoSettings, ...folder, ...noSink, ...given };
}

/** How to ask about the rules of this project's examples; of other ones, where to look at them. */
function hintText(env: NodeJS.ProcessEnv, ports: { http: number; debug: number | undefined }): string {
  if (isXds(env) || isDemoFolder(env)) {
    return `Ask it, and again until the answer is 429:

  curl -i --json '${question}' http://localhost:${ports.http}/v1/check`;
  }
  const lines = [`  bin/weir explain ${rulesFolder(env)} <domain> <key>=<value>`];
  if (ports.debug !== undefined) lines.unshift(`  curl http://localhost:${ports.debug}/rlconfig`);
  return ['See what is loaded, and which rule a request finds:', '', ...lines].join('\n');
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
  const said = isDemoFolder(env) ? ' (5 requests a minute for each address, unless you changed them)' : '';
  return `${rulesFolder(env)}/${said}; they are loaded again when you change them.`;
}
