/** A replica of the control plane: its ports, and the order of its start and shutdown. */

import { packageVersion } from '../process/files/package-file.ts';
import { Health } from '../process/grpc/health.ts';
import type { HttpListener } from '../process/http/http-server.ts';
import type { Logger } from '../process/log/logger.ts';
import { shutdownLines } from '../process/log/process-lines.ts';
import { addressText } from '../process/net/bind.ts';
import type { FollowedToken } from '../process/net/token-file.ts';
import type { Environment } from '../process/settings/settings-reader.ts';
import type { ProcessTime } from '../process/time/clock.ts';
import { type ShutdownStep, type SignalSource, shutdownOnSignal } from '../process/time/shutdown.ts';
import type { OpenBacking } from './backing.ts';
import { ControlLoop } from './control-loop.ts';
import { type AdmissionView, admissionAnswer, isDoubtful } from './http/admission-answer.ts';
import { openAdmissionServer } from './http/admission-server.ts';
import { type ControlPlaneView, createControlPlaneListener, Readiness } from './http/listener.ts';
import { CallerConnections, followDebugToken, openAdmin } from './http/ports.ts';
import { openSecretApi } from './http/secret-api.ts';
import { overrideRoutes, statusRoutes } from './http/status-routes.ts';
import { heldDomains } from './model/decision.ts';
import { limitedOf } from './model/fleet-snapshot.ts';
import { searchInThread } from './reconcile/counter-collisions.ts';
import { replicaName } from './replicas/own-objects.ts';
import type { ControlPlaneSettings } from './settings/table.ts';
import { ControlPlaneMetrics, type Telemetry } from './telemetry/control-plane-metrics.ts';
import { lines } from './telemetry/log-lines.ts';
import type { SecretPlace } from './webhooks/signing-keys.ts';
import { openWebhooks, type Webhooks } from './webhooks/webhooks.ts';
import { kindOfClient } from './xds/caller-identity.ts';
import { XdsServer, type XdsServerOptions } from './xds/xds-server.ts';

export interface ControlPlaneOptions extends ProcessTime {
  settings: ControlPlaneSettings;
  openBacking: OpenBacking;
  /** The environment for values that are not settings of Weir: where a pod finds its API server, and a user's home. */
  env: Environment;
  hostName: string;
  signals: SignalSource;
  random(): number;
  log: Logger;
  onListening(ports: ControlPlanePorts): void;
}

export interface ControlPlanePorts {
  xds: { port: number };
  http: { port: number };
  /** Undefined if there is no token, so that the secret lookup is closed. */
  api: { port: number } | undefined;
  /** Undefined if there is no certificate for it. */
  admission: { port: number } | undefined;
}

/** How long requests and streams may continue at shutdown. */
const shutdownGraceMs = 5_000;
const webhooksGraceMs = 5_000;
const secretLookupGraceMs = 1_000;

export class ControlPlane {
  readonly #options: ControlPlaneOptions;
  readonly #replica: string;
  readonly #health = new Health();
  readonly #readiness = new Readiness(() => this.#loop.unread);
  readonly #metrics: ControlPlaneMetrics;
  /** The parts that most others need. */
  readonly #parts: ControlPlaneOptions & Telemetry;
  readonly #loop: ControlLoop;
  readonly #xds: XdsServer;
  /** The connections of the HTTP ports. */
  readonly #connections: CallerConnections;
  readonly #http: HttpListener;
  readonly #debugToken: FollowedToken;
  #webhooks: Webhooks | undefined;
  #api: HttpListener | undefined;
  #admission: HttpListener | undefined;
  #isEnding = false;

  /** Throws if the settings name no source of objects. */
  constructor(options: ControlPlaneOptions) {
    const { settings, hostName, random } = options;
    const { xdsClientFleets: fleets } = settings;
    this.#options = options;
    this.#replica = replicaName({ podName: settings.podName, hostName, random });
    this.#metrics = this.#createMetrics();
    this.#parts = { ...options, metrics: this.#metrics };
    this.#connections = new CallerConnections(this.#parts);
    this.#loop = new ControlLoop({
      ...this.#parts,
      replica: this.#replica,
      maxStreams: options.settings.xdsMaxStreams,
      ...(fleets.size === 0 ? {} : { fleetsOfClients: fleets }),
      notify: (event, settled) => this.#webhooks?.notify(event, settled),
      searchCollisions: searchInThread,
      serving: () => {
        this.#readiness.reached('source');
        this.#health.set('source', true);
      },
    });
    this.#health.set('source', false);
    this.#xds = this.#createXds();
    this.#debugToken = followDebugToken(this.#parts);
    this.#http = this.#createHttp();
  }

  /** Resolves with the exit status. If it cannot start, closes everything and rejects. */
  async run(): Promise<number> {
    const ended = this.#untilSignal();
    try {
      return await Promise.race([ended, this.#start().then(() => ended)]);
    } catch (error) {
      if (this.#isEnding) return ended;
      await Promise.allSettled(this.#steps().map((step) => step.run()));
      throw error;
    }
  }

  /** Opens its own listener first, so that operators can observe a start that waits. Limiters may connect before the list is complete. */
  async #start(): Promise<void> {
    const { settings, log } = this.#options;
    this.#webhooks = await this.#openWebhooks();
    this.#api = await this.#openSecretLookup();
    this.#admission = await this.#openAdmission();
    await this.#debugToken.start();
    const httpAddress = { host: settings.httpHost, port: settings.httpPort };
    const http = await this.#http.listen(httpAddress);
    lines.listeningForHttp(log, { address: addressText({ ...httpAddress, ...http }) });
    const xdsAddress = { host: settings.xdsHost, port: settings.xdsPort };
    const xds = await this.#xds.listen(xdsAddress);
    this.#readiness.reached('xds');
    lines.listeningForXds(log, { address: addressText({ ...xdsAddress, ...xds }) });
    const apiAddress = { host: settings.apiHost, port: settings.apiPort };
    const api = await this.#api?.listen(apiAddress);
    if (api !== undefined) lines.listeningForApi(log, { address: addressText({ ...apiAddress, ...api }) });
    const admissionAddress = { host: settings.admissionHost, port: settings.admissionPort };
    const admission = await this.#admission?.listen(admissionAddress);
    if (admission)
      lines.listeningForAdmission(log, { address: addressText({ ...admissionAddress, ...admission }) });
    await this.#loop.start();
    if (!this.#isEnding) this.#options.onListening({ xds, http, api, admission });
  }

  #untilSignal(): Promise<number> {
    const { signals, timers, settings, log } = this.#options;
    return new Promise((resolve) => {
      void shutdownOnSignal({
        signals,
        timers,
        drainDelayMs: () => (this.#loop.world.objects ? settings.shutdownDrainDelayMs : 0),
        markUnhealthy: () => {
          this.#isEnding = true;
          this.#readiness.drain();
          this.#health.set('sigterm', false);
        },
        steps: this.#steps(),
        exit: resolve,
        listener: shutdownLines(log),
      });
    });
  }

  /** Leaves statuses to the next leader before limiters move to other replicas, so that it writes no incomplete status. */
  #steps(): ShutdownStep[] {
    const timeoutMs = shutdownGraceMs + 1_000;
    return [
      { name: 'statuses', timeoutMs, run: () => this.#loop.closeStatuses() },
      { name: 'xDS listener', timeoutMs, run: () => this.#xds.shutdown() },
      { name: 'source', timeoutMs, run: () => this.#loop.closeSource() },
      { name: 'replicas', timeoutMs, run: () => this.#loop.backing.close() },
      { name: 'webhooks', timeoutMs, run: () => this.#webhooks?.close(webhooksGraceMs) },
      { name: 'secret lookup', timeoutMs, run: () => this.#api?.close() },
      { name: 'admission', timeoutMs, run: () => this.#admission?.close() },
      { name: 'HTTP listener', timeoutMs, run: () => this.#http.close() },
    ];
  }

  /** Returns undefined without WEBHOOK_URLS. Rejects with a SecretError. */
  async #openWebhooks(): Promise<Webhooks | undefined> {
    const { settings } = this.#options;
    if (settings.webhookUrls.length === 0) return undefined;
    return openWebhooks({
      ...this.#parts,
      urls: settings.webhookUrls,
      secret: secretPlace('WEBHOOK_SECRET', settings.webhookSecret, settings.webhookSecretFile),
      queueSize: settings.webhookQueueSize,
      timeoutMs: settings.webhookTimeoutMs,
      allowLocal: settings.webhookAllowLocal,
      secretOverlapMs: settings.webhookSecretOverlapMs,
    });
  }

  /** Returns undefined without API_TOKEN and API_TOKEN_FILE. Rejects with a SecretError. */
  async #openSecretLookup(): Promise<HttpListener | undefined> {
    const { apiToken, apiTokenFile, apiTlsCert: certFile, apiTlsKey: keyFile } = this.#options.settings;
    if (apiToken === '' && apiTokenFile === '') return undefined;
    return openSecretApi({
      ...this.#parts,
      token: secretPlace('API_TOKEN', apiToken, apiTokenFile),
      connections: this.#connections.of('api'),
      signingSecret: () => this.#webhooks?.signingSecret(),
      ...(certFile === '' ? {} : { tls: { certFile, keyFile } }),
      closeGraceMs: secretLookupGraceMs,
    });
  }

  async #openAdmission(): Promise<HttpListener | undefined> {
    const { admissionTlsCert: certFile, admissionTlsKey: keyFile } = this.#options.settings;
    const { previewed, schemas } = this.#loop.backing;
    if (certFile === '' || previewed === undefined) return undefined;
    const view: AdmissionView = {
      ...previewed,
      preview: (object) => this.#loop.preview(object),
      limited: (fleet) => limitedOf(this.#loop.world.reports, fleet),
      isListed: () => this.#loop.isServing,
      mergeDomains: this.#loop.mergesDomains,
    };
    return openAdmissionServer({
      ...this.#parts,
      connections: this.#connections.of('admission'),
      files: { certFile, keyFile },
      answer: async (request) => {
        if (isDoubtful(request, view)) await schemas?.refresh();
        return admissionAnswer(request, view);
      },
      closeGraceMs: shutdownGraceMs,
    });
  }

  #createXds(): XdsServer {
    const { settings } = this.#options;
    const { xdsTlsCert: certFile, xdsTlsKey: keyFile, xdsTlsClientCacert } = settings;
    const clientCa = xdsTlsClientCacert === '' ? {} : { clientCaFile: xdsTlsClientCacert };
    return new XdsServer({
      ...this.#parts,
      streams: this.#loop.streams,
      health: this.#health,
      keepaliveIntervalMs: settings.xdsKeepaliveIntervalMs,
      keepaliveTimeoutMs: settings.xdsKeepaliveTimeoutMs,
      shutdownGraceMs,
      ...(certFile === '' ? {} : { tls: { certFile, keyFile, ...clientCa } }),
      ...this.#xdsIdentity(),
    });
  }

  /** If no authentication is configured, every caller is served. In this case, the port accepts only connections from this machine. */
  #xdsIdentity(): Pick<XdsServerOptions, 'tokensFile' | 'serviceAccounts' | 'allowAnonymous'> {
    const { settings } = this.#options;
    const { xdsTokensFile: path, xdsTokenAudience: audience, xdsClientFleets: fleets } = settings;
    const { reviewToken } = this.#loop.backing;
    const hasAccounts = [...fleets.keys()].some((name) => kindOfClient(name) === 'service account');
    const accounts = hasAccounts && reviewToken !== undefined;
    const canProve = settings.xdsTlsClientCacert !== '' || path !== '' || accounts;
    return {
      allowAnonymous: settings.xdsAllowAnonymous || !canProve,
      ...(path === '' ? {} : { tokensFile: { path } }),
      ...(accounts && {
        serviceAccounts: {
          audience,
          perSecond: settings.xdsTokenReviewsPerSecond,
          review: (token) => reviewToken(token, audience),
        },
      }),
    };
  }

  #createMetrics(): ControlPlaneMetrics {
    return new ControlPlaneMetrics({
      sources: {
        decision: () => this.#loop.decision,
        limiters: () => this.#loop.streams.limiters(),
        domainsHeld: () => heldDomains(this.#loop.world.policy?.records),
        replicasAlive: () => this.#loop.world.reports.length,
        statusWritesWaiting: () => this.#loop.statusesWaiting,
        webhookEventsQueued: () => this.#webhooks?.queued ?? 0,
      },
      version: packageVersion(),
      nodeVersion: process.versions.node,
    });
  }

  #createHttp(): HttpListener {
    const { backing } = this.#loop;
    const view: ControlPlaneView = {
      replica: this.#replica,
      className: this.#options.settings.className,
      controllerName: backing.controllerName,
      leader: () => backing.replicas.leader,
      decision: () => this.#loop.decision,
      missing: () => this.#readiness.missing,
      reports: () => this.#loop.world.reports,
      statusOf: (object) => (this.#loop.world.objects?.get(object.uid) ?? object).status,
    };
    const onFault = (error: unknown): void => {
      this.#metrics.all.faults.inc();
      lines.fault(this.#options.log, { call: 'HTTP', error });
    };
    const nowMs = () => this.#options.clock.nowMs();
    const routes = [
      ...statusRoutes({ view, version: packageVersion() }),
      ...overrideRoutes({ ...view, nowMs }),
    ];
    const api = openAdmin(this.#parts, { token: () => this.#debugToken.current, routes, onFault });
    return createControlPlaneListener({
      readiness: this.#readiness,
      metrics: this.#metrics,
      view,
      api,
      connections: this.#connections.of('HTTP'),
      closeGraceMs: shutdownGraceMs,
      onFault,
    });
  }
}

function secretPlace(variable: string, value: string, file: string): SecretPlace {
  return file === '' ? { variable, value } : { file };
}
