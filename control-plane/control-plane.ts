/** One replica of the control plane: its parts, how they hear of each other, and their order at start and end. */

import { packageVersion } from '../process/files/package-file.ts';
import { Health } from '../process/grpc/health.ts';
import type { HttpListener } from '../process/http/http-server.ts';
import type { Logger } from '../process/log/logger.ts';
import { Seldom } from '../process/log/seldom.ts';
import { addressText } from '../process/net/bind.ts';
import type { FollowedToken } from '../process/net/token-file.ts';
import type { Environment } from '../process/settings/settings-reader.ts';
import type { Clock, Timers } from '../process/time/clock.ts';
import { Pace } from '../process/time/pacing.ts';
import { type ShutdownStep, type SignalSource, shutdownOnSignal } from '../process/time/shutdown.ts';
import { type AdmissionView, admissionAnswer, isDoubtful } from './admission/admission-answer.ts';
import { openAdmissionServer } from './admission/admission-server.ts';
import type { Backing, BackingListener, OpenBacking } from './backing.ts';
import { Distribution } from './distribution.ts';
import { followDebugToken, openAdmin } from './http/admin.ts';
import { CallerConnections } from './http/caller-connections.ts';
import { type ControlPlaneView, createControlPlaneListener, Readiness } from './http/listener.ts';
import { overrideRoutes } from './http/override-routes.ts';
import { statusRoutes } from './http/status-routes.ts';
import { heldDomains } from './model/decision.ts';
import { limitedOf } from './model/rule-support.ts';
import { openNotifications, openSecretLookup } from './notifications.ts';
import { parseDomainOwners } from './reconcile/claims.ts';
import { searchInThread } from './reconcile/counter-meetings.ts';
import { Decider, persistedKept } from './reconcile/decide.ts';
import { VersionLedger } from './reconcile/fleet-standing.ts';
import { MeetingWatch } from './reconcile/meeting-watch.ts';
import { Removals } from './reconcile/removals.ts';
import { replicaName } from './replicas/replica-name.ts';
import type { ControlPlaneSettings } from './settings/table.ts';
import type { SourceListener } from './source/kubernetes-source.ts';
import { Announcer, StatusKeeper } from './status-keeper.ts';
import { ControlPlaneMetrics, type Telemetry } from './telemetry/control-plane-metrics.ts';
import * as lines from './telemetry/log-lines.ts';
import type { Webhooks } from './webhooks/webhooks.ts';
import { kindOfClient } from './xds/fleet-permissions.ts';
import { XdsServer, type XdsServerOptions } from './xds/xds-server.ts';

export interface ControlPlaneOptions {
  settings: ControlPlaneSettings;
  openBacking: OpenBacking;
  /** For what is no setting of ours: where a pod finds its API server, and a person's home. */
  env: Environment;
  hostName: string;
  signals: SignalSource;
  clock: Clock;
  timers: Timers;
  random(): number;
  log: Logger;
  onListening(ports: ControlPlanePorts): void;
}

export interface ControlPlanePorts {
  xds: { port: number };
  http: { port: number };
  /** Undefined: there is no token, so the secret lookup is closed. */
  api: { port: number } | undefined;
  /** Undefined: there is no certificate for it. */
  admission: { port: number } | undefined;
}

/** How long requests and streams may take to end. */
const shutdownGraceMs = 5_000;
/** Chosen: far below the time in which a status has to be true. */
const reportGatherMs = 10;
const reportIntervalMs = 100;
const webhooksGraceMs = 5_000;
/** A leader may be dead for the Lease's duration, and its last status a moment older. */
const webhookRepeatMarginMs = 30_000;
/** Chosen: between two log lines about deleted objects that nobody is told of. */
const seldomMs = 60_000;

export class ControlPlane {
  readonly #options: ControlPlaneOptions;
  readonly #replica: string;
  readonly #health = new Health();
  readonly #readiness = new Readiness();
  readonly #metrics: ControlPlaneMetrics;
  /** What most parts are made of. */
  readonly #parts: ControlPlaneOptions & Telemetry;
  readonly #backing: Backing;
  readonly #xds: XdsServer;
  /** Answers of limiters come in bursts. */
  readonly #reportPace: Pace;
  readonly #ledger = new VersionLedger();
  readonly #decider: Decider;
  readonly #distribution: Distribution;
  readonly #statuses: StatusKeeper;
  readonly #announcer: Announcer;
  /** Without an API server there are no events. */
  readonly #meetings: MeetingWatch | undefined;
  /** Of the HTTP ports. */
  readonly #connections: CallerConnections;
  readonly #http: HttpListener;
  readonly #debugToken: FollowedToken;
  #webhooks: Webhooks | undefined;
  #api: HttpListener | undefined;
  #admission: HttpListener | undefined;
  #isListed = false;
  /** Since the first decision there is something to serve. */
  #isServing = false;
  #isEnding = false;

  /** Throws when the settings name no way to the objects. */
  constructor(options: ControlPlaneOptions) {
    const { settings, hostName, random } = options;
    this.#options = options;
    this.#replica = replicaName({ podName: settings.podName, hostName, random });
    this.#metrics = this.#createMetrics();
    this.#parts = { ...options, metrics: this.#metrics };
    this.#connections = new CallerConnections(this.#parts);
    this.#backing = options.openBacking({
      ...this.#parts,
      replica: this.#replica,
      listener: this.#backingListener(),
    });
    this.#health.set('source', false);
    this.#xds = this.#createXds();
    this.#reportPace = new Pace({
      ...options,
      gatherMs: reportGatherMs,
      intervalMs: reportIntervalMs,
      run: () => this.#backing.publish(this.#xds.limiters()),
    });
    this.#decider = this.#createDecider();
    this.#distribution = this.#createDistribution();
    this.#announcer = new Announcer({
      clock: options.clock,
      recordEvent: (event) => this.#backing.recordEvent(event),
      notify: (event, settled) => this.#webhooks?.notify(event, settled),
      limitersOf: (object) => this.#statuses.countsFor(object),
      repeatMs: this.#repeatMs,
    });
    this.#statuses = new StatusKeeper({
      ...this.#parts,
      backing: this.#backing,
      ledger: this.#ledger,
      decision: () => this.#distribution.decision,
      isOversize: (fleet) => this.#xds.isOversize(fleet),
      writesPerSecond: settings.statusWritesPerSecond,
      announcer: this.#announcer,
      removals: settings.webhookUrls.length === 0 ? undefined : this.#createRemovals(),
    });
    this.#meetings = settings.source === 'KUBERNETES' ? this.#createMeetings() : undefined;
    this.#debugToken = followDebugToken(this.#parts);
    this.#http = this.#createHttp();
  }

  /** Resolves with the exit status. Rejects when it cannot start, everything closed again. */
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

  /** The own listener first, so that a start that waits can be looked at; limiters may connect before there is a list. */
  async #start(): Promise<void> {
    const { settings, log } = this.#options;
    this.#webhooks = await openNotifications(this.#parts);
    this.#api = await openSecretLookup(this.#parts, this.#webhooks, this.#connections.of('api'));
    this.#admission = await this.#openAdmission();
    await this.#debugToken.start();
    const httpAddress = { host: settings.httpHost, port: settings.httpPort };
    const http = await this.#http.listen(httpAddress);
    lines.listeningForHttp(log, addressText({ ...httpAddress, ...http }));
    const xdsAddress = { host: settings.xdsHost, port: settings.xdsPort };
    const xds = await this.#xds.listen(xdsAddress);
    this.#readiness.reached('xds');
    lines.listeningForXds(log, addressText({ ...xdsAddress, ...xds }));
    const apiAddress = { host: settings.apiHost, port: settings.apiPort };
    const api = await this.#api?.listen(apiAddress);
    if (api !== undefined) lines.listeningForApi(log, addressText({ ...apiAddress, ...api }));
    const admissionAddress = { host: settings.admissionHost, port: settings.admissionPort };
    const admission = await this.#admission?.listen(admissionAddress);
    if (admission) lines.listeningForAdmission(log, addressText({ ...admissionAddress, ...admission }));
    this.#backing.start();
    await this.#backing.source.start(this.#sourceListener());
    if (!this.#isEnding) this.#options.onListening({ xds, http, api, admission });
  }

  #untilSignal(): Promise<number> {
    const { signals, timers, settings, log } = this.#options;
    return new Promise((resolve) => {
      void shutdownOnSignal({
        signals,
        timers,
        drainDelayMs: () => (this.#isListed ? settings.shutdownDrainDelayMs : 0),
        markUnhealthy: () => {
          this.#isEnding = true;
          this.#readiness.drain();
          this.#health.set('sigterm', false);
        },
        steps: this.#steps(),
        exit: resolve,
        listener: lines.shutdownLines(log),
      });
    });
  }

  /** Statuses are left to the next leader before limiters leave for other replicas, so that nobody writes half the truth. */
  #steps(): ShutdownStep[] {
    const timeoutMs = shutdownGraceMs + 1_000;
    return [
      { name: 'statuses', timeoutMs, run: () => this.#statuses.close() },
      { name: 'xDS listener', timeoutMs, run: () => this.#xds.shutdown() },
      { name: 'source', timeoutMs, run: () => this.#closeSource() },
      { name: 'replicas', timeoutMs, run: () => this.#backing.close() },
      { name: 'webhooks', timeoutMs, run: () => this.#webhooks?.close(webhooksGraceMs) },
      { name: 'secret lookup', timeoutMs, run: () => this.#api?.close() },
      { name: 'admission', timeoutMs, run: () => this.#admission?.close() },
      { name: 'HTTP listener', timeoutMs, run: () => this.#http.close() },
    ];
  }

  #closeSource(): Promise<void> {
    this.#distribution.close();
    this.#meetings?.close();
    this.#reportPace.close();
    return this.#backing.source.close();
  }

  #sourceListener(): SourceListener {
    return {
      listed: () => {
        this.#isListed = true;
        this.#distribution.listed();
      },
      statusShown: () => this.#statuses.update(),
      changed: () => this.#distribution.changed(),
      cutOff: (isCutOff) => this.#cutOff('watch', isCutOff),
    };
  }

  #cutOff(by: 'watch' | 'lease', isCutOff: boolean): void {
    this.#distribution.cutOff(by, isCutOff);
    if (isCutOff) this.#backing.decided(undefined);
  }

  #backingListener(): BackingListener {
    return {
      startedLeading: () => {
        this.#keep();
        if (this.#isServing) this.#announcer.startedLeading(this.#backing.source.objects());
        this.#statuses.update();
        this.#meetings?.update();
      },
      stoppedLeading: () => {
        this.#statuses.stoppedLeading();
        this.#meetings?.stoppedLeading();
      },
      reportsChanged: () => {
        this.#statuses.update();
        this.#meetings?.update();
      },
      cutOff: (isCutOff) => this.#cutOff('lease', isCutOff),
      fleetsChanged: () => this.#statuses.update(),
      fleetsShown: () => this.#statuses.fleetsShown(),
      removedShown: (stored) => this.#statuses.removedShown(stored),
      policyChanged: () => this.#distribution.policyChanged(),
      keptChanged: (stored) => this.#distribution.useKept(stored),
    };
  }

  #createDecider(): Decider {
    const { settings } = this.#options;
    const parsed = parseDomainOwners(settings.domainOwners, settings.domainOwnership);
    if (!parsed.ok) throw new Error(`DOMAIN_OWNERS: ${parsed.errors.join('; ')}`);
    return new Decider({
      mergeDomains: settings.mergeDomainConfig,
      domainOwners: parsed.owners,
      overridesMaxSeconds: settings.overridesMaxSeconds,
      controllerName: this.#backing.controllerName,
      version: packageVersion(),
    });
  }

  #createDistribution(): Distribution {
    return new Distribution({
      ...this.#parts,
      source: this.#backing.source,
      decider: this.#decider,
      policy: () => this.#backing.policy,
      schemas: this.#backing.schemas,
      ledger: this.#ledger,
      xds: this.#xds,
      decided: () => this.#decided(),
    });
  }

  async #openAdmission(): Promise<HttpListener | undefined> {
    const {
      admissionTlsCert: certFile,
      admissionTlsKey: keyFile,
      mergeDomainConfig,
    } = this.#options.settings;
    const { foreseen, schemas } = this.#backing;
    if (certFile === '' || foreseen === undefined) return undefined;
    const view: AdmissionView = {
      ...foreseen,
      foresee: (object) =>
        object.kind === undefined
          ? this.#decider.foresee(object, schemas?.known)
          : this.#decider.foreseeOverride(object, this.#options.clock.nowMs(), schemas?.known),
      limited: (fleet) => limitedOf(this.#backing.reports(), fleet),
      isListed: () => this.#isServing,
      mergeDomains: mergeDomainConfig,
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

  /** What a leader before may have lost of webhooks is not older. */
  get #repeatMs(): number {
    return this.#options.settings.leaseDurationMs + webhookRepeatMarginMs;
  }

  #createRemovals(): Removals {
    const { settings, log, clock } = this.#options;
    const { webhookQueueSize: most } = settings;
    const drops = new Seldom<undefined>(clock, seldomMs, (_, count) =>
      lines.removedDropped(log, { count, most }),
    );
    return new Removals({
      most,
      forgetAfterMs: this.#repeatMs,
      dropped: () => {
        if (!this.#backing.leads) return;
        this.#metrics.webhookDropped('queue full', 1);
        drops.note(undefined);
      },
    });
  }

  #createMeetings(): MeetingWatch {
    return new MeetingWatch({
      ...this.#options,
      decision: () => this.#distribution.decision,
      reports: () => this.#backing.reports(),
      leads: () => this.#backing.leads,
      search: searchInThread,
      recordEvent: (event) => this.#backing.recordEvent(event),
    });
  }

  #decided(): void {
    if (!this.#isServing) {
      this.#isServing = true;
      this.#readiness.reached('source');
      this.#health.set('source', true);
      // A lead that was won before anything could be decided had nothing to repeat.
      if (this.#backing.leads) this.#announcer.startedLeading(this.#backing.source.objects());
    }
    this.#keep();
    this.#statuses.update();
    this.#meetings?.update();
  }

  /** Before the first decision nobody can say what may be forgotten. */
  #keep(): void {
    const { decision, kept, isCutOff } = this.#distribution;
    if (decision === undefined || !this.#backing.leads) return;
    this.#backing.keep(persistedKept(decision, kept));
    if (!isCutOff) this.#backing.decided(decision);
  }

  #createXds(): XdsServer {
    const { settings } = this.#options;
    const { xdsTlsCert: certFile, xdsTlsKey: keyFile, xdsTlsClientCacert } = settings;
    const clientCa = xdsTlsClientCacert === '' ? {} : { clientCaFile: xdsTlsClientCacert };
    return new XdsServer({
      ...this.#parts,
      replicaName: this.#replica,
      health: this.#health,
      maxStreams: settings.xdsMaxStreams,
      keepaliveIntervalMs: settings.xdsKeepaliveIntervalMs,
      keepaliveTimeoutMs: settings.xdsKeepaliveTimeoutMs,
      shutdownGraceMs,
      ...(certFile === '' ? {} : { tls: { certFile, keyFile, ...clientCa } }),
      ...this.#xdsIdentity(),
      changed: () => this.#reportPace.ask(),
      sent: () => this.#distribution.sent(),
    });
  }

  /** Where only this machine reaches the port, who proves nothing is served as long as nothing could be proved. */
  #xdsIdentity(): Pick<
    XdsServerOptions,
    'tokensFile' | 'serviceAccounts' | 'allowAnonymous' | 'fleetsOfClients'
  > {
    const { settings } = this.#options;
    const { xdsTokensFile: path, xdsTokenAudience: audience, xdsClientFleets: fleets } = settings;
    const { reviewToken } = this.#backing;
    const hasAccounts = [...fleets.keys()].some((name) => kindOfClient(name) === 'service account');
    const accounts = hasAccounts && reviewToken !== undefined;
    const canProve = settings.xdsTlsClientCacert !== '' || path !== '' || accounts;
    return {
      allowAnonymous: settings.xdsAllowAnonymous || !canProve,
      ...(path === '' ? {} : { tokensFile: { path } }),
      ...(fleets.size === 0 ? {} : { fleetsOfClients: fleets }),
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
        decision: () => this.#distribution.decision,
        limiters: () => this.#xds.limiters(),
        domainsHeld: () => heldDomains(this.#backing.policy?.records),
        replicasAlive: () => this.#backing.reports().length,
        statusWritesWaiting: () => this.#statuses.waiting,
        webhookEventsQueued: () => this.#webhooks?.status().reduce((sum, { queued }) => sum + queued, 0) ?? 0,
      },
      version: packageVersion(),
      nodeVersion: process.versions.node,
    });
  }

  #createHttp(): HttpListener {
    const view: ControlPlaneView = {
      replica: this.#replica,
      className: this.#options.settings.className,
      controllerName: this.#backing.controllerName,
      leader: () => this.#backing.leader,
      decision: () => this.#distribution.decision,
      reports: () => this.#backing.reports(),
      statusOf: (object) => (this.#backing.source.newest(object) ?? object).status,
    };
    const onFault = (error: unknown): void => {
      this.#metrics.all.faults.inc();
      lines.fault(this.#options.log, 'HTTP', error);
    };
    const missing = () => this.#readiness.missing;
    const nowMs = () => this.#options.clock.nowMs();
    const routes = [
      ...statusRoutes({ view, version: packageVersion(), missing }),
      ...overrideRoutes({ ...view, nowMs }),
    ];
    const api = openAdmin(this.#parts, { token: () => this.#debugToken.current, routes, onFault });
    const { metrics, readiness } = { metrics: this.#metrics, readiness: this.#readiness };
    return createControlPlaneListener({
      readiness,
      metrics,
      view,
      api,
      connections: this.#connections.of('HTTP'),
      closeGraceMs: shutdownGraceMs,
      onFault,
    });
  }
}
