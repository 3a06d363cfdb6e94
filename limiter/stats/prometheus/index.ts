/**
 * Statistics for Prometheus: which metrics they become, in the mapping language of statsd_exporter, and the listener
 * that serves them. Reference section 8.4.
 */
export { builtInMapping } from './built-in-mapping.ts';
export { readMapperFile } from './mapper-file.ts';
export { PrometheusSink } from './prometheus-sink.ts';
