/** The Envoys of examples/, and that of examples/envoy with filters and routes of a document, on ports of a test. */
import { parse } from 'yaml';

import { readExample } from './example-cases.ts';

interface Filter {
  name: string;
  typed_config: Record<string, unknown>;
}

interface Listener {
  address: { socket_address: { port_value: number } };
  filter_chains: { filters: [{ typed_config: Record<string, unknown> & { http_filters: Filter[] } }] }[];
}

interface Cluster {
  name: string;
  load_assignment: {
    endpoints: { lb_endpoints: { endpoint: Pick<Listener, 'address'> }[] }[];
  };
}

export interface ExampleEnvoy {
  static_resources: { listeners: Listener[]; clusters: Cluster[] };
}

export interface ExampleEnvoyPorts {
  listener: number;
  limiter: number;
  service: number;
}

/** The file of a case, whose ports are those of examples/envoy. */
export function exampleEnvoy(name: string): ExampleEnvoy {
  return parse(readExample(name, 'envoy.yaml')) as ExampleEnvoy;
}

/** The same for a test: on other ports, with the service elsewhere, and an unanswered question shows as a 500. */
export function exampleEnvoyAt(name: string, ports: ExampleEnvoyPorts): ExampleEnvoy {
  return atPorts(exampleEnvoy(name), ports);
}

/** As `exampleEnvoyAt`, with the filters and routes of a text. */
export function envoyAt(text: string, ports: ExampleEnvoyPorts): ExampleEnvoy {
  const config = exampleEnvoy('envoy');
  Object.assign(connectionManager(config), parse(text));
  return atPorts(config, ports);
}

function atPorts(config: ExampleEnvoy, ports: ExampleEnvoyPorts): ExampleEnvoy {
  const { listeners, clusters } = config.static_resources;
  const [listener] = listeners.splice(0);
  if (listener === undefined) throw new Error('the configuration has no listener');
  listeners.push(listener);
  listener.address.socket_address.port_value = ports.listener;
  for (const cluster of clusters) {
    const { address } = cluster.load_assignment.endpoints[0]!.lb_endpoints[0]!.endpoint;
    address.socket_address.port_value = cluster.name === 'weir' ? ports.limiter : ports.service;
  }
  for (const { typed_config: filter } of connectionManager(config).http_filters) {
    if (!String(filter['@type']).endsWith('.ratelimit.v3.RateLimit')) continue;
    Object.assign(filter, { timeout: '20s', failure_mode_deny: true });
  }
  return config;
}

function connectionManager(config: ExampleEnvoy): Record<string, unknown> & { http_filters: Filter[] } {
  const manager = config.static_resources.listeners[0]?.filter_chains[0]?.filters[0].typed_config;
  if (manager === undefined) throw new Error('the configuration has no connection manager');
  return manager;
}
