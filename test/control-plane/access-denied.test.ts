/** An API server that has just begun denies what it will grant, as its roles are not loaded: nothing is said of objects before. */
import { expect, it, onTestFinished } from 'vitest';
import { conditionOf, installPrerequisites, startReplica, startXdsLimiter } from '../support/cluster.ts';
import { describeWithApiServer } from '../support/describe-with-api-server.ts';
import { eventually } from '../support/eventually.ts';
import { freePort } from '../support/free-port.ts';
import { httpAsk } from '../support/http-ask.ts';
import { LimiterClient } from '../support/limiter-client.ts';
import { rateLimitConfigText } from '../support/rate-limit-config.ts';
import { WebhookReceiver } from '../support/webhook-receiver.ts';

const secret = `whsec_${Buffer.alloc(32, 7).toString('base64')}`;

const sleep = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

describeWithApiServer('a control plane that may not read RateLimitFleets', (api) => {
  it('says nothing of objects, keeps limits in force, and tells after 30 s what it is denied', async () => {
    installPrerequisites(api());
    const receiver = new WebhookReceiver();
    await receiver.start();
    onTestFinished(() => receiver.stop());
    const env = {
      XDS_PORT: String(await freePort()),
      WEBHOOK_URLS: receiver.url,
      WEBHOOK_ALLOW_LOCAL: 'true',
      WEBHOOK_SECRET: secret,
    };
    const apply = (name: string): void =>
      void api().mustKubectl(['apply', '-f', '-'], {
        input: rateLimitConfigText({ name, domain: name, requests: 3 }),
      });
    const first = await startReplica(api(), 'first', env);
    const limiter = await startXdsLimiter(first.ports.xds, 'limiter');
    onTestFinished(() => limiter.stop());
    const client = new LimiterClient(limiter.ports.grpc);
    onTestFinished(() => client.close());
    let asked = 0;
    const limitIn = async (domain: string): Promise<number> => {
      asked += 1;
      let passed = 0;
      for (let i = 0; i < 5; i++) if (await client.allowed(domain, 'key', `v${asked}`)) passed += 1;
      return passed;
    };
    apply('shop');
    await eventually(() => expect(conditionOf(api(), 'shop', 'Ready')).toBe('True Ready'), {
      timeoutMs: 20_000,
    });
    await first.stop();

    const role = ['role', 'weir-control-plane', '-n', 'weir-system'];
    const { rules } = JSON.parse(api().mustKubectl(['get', ...role, '-o', 'json'])) as {
      rules: { resources: string[]; verbs: string[] }[];
    };
    const setRules = (list: object[]): void =>
      void api().mustKubectl(['patch', ...role, '--type=merge', '-p', JSON.stringify({ rules: list })]);
    setRules(rules.filter(({ resources }) => !resources.includes('ratelimitfleets')));
    const mayList = ['auth', 'can-i', 'list', 'ratelimitfleets.ratelimit.weir.dev', '-n', 'weir-system'];
    await eventually(() =>
      expect(api().kubectl(mayList, { user: 'control-plane' }).stdout.trim()).toBe('no'),
    );
    apply('mail');
    const heard = receiver.deliveries.length;
    const plane = await startReplica(api(), 'second', env);
    onTestFinished(() => plane.stop());
    const isStill = async (): Promise<void> => {
      expect(conditionOf(api(), 'mail', 'Accepted')).toBe('');
      expect(conditionOf(api(), 'shop', 'Accepted')).toBe('True Valid');
      expect(await limitIn('shop')).toBe(3);
      const { items } = api().read('events', {}) as { items: { type: string }[] };
      expect(items.filter(({ type }) => type === 'Warning')).toEqual([]);
    };
    for (let i = 0; i < 4; i++) {
      await sleep(1_000);
      await isStill();
    }
    expect(plane.program.output).not.toMatch(/level=error/);
    await plane.program.printed(
      /level=error msg="The API server denies .*verb=list resource=ratelimitfleets\.ratelimit\.weir\.dev /,
      45_000,
    );
    const series =
      'weir_control_plane_access_denied{verb="list",resource="ratelimitfleets.ratelimit.weir.dev"}';
    const metrics = async (): Promise<string> => (await httpAsk(plane.ports.http, '/metrics')).body;
    expect(await metrics()).toContain(`${series} 1`);
    await isStill();
    expect(receiver.deliveries.length).toBe(heard);
    setRules(rules);
    await eventually(() => expect(conditionOf(api(), 'mail', 'Accepted')).toBe('True Valid'), {
      timeoutMs: 20_000,
    });
    expect(await metrics()).toContain(`${series} 0`);
    expect(await limitIn('shop')).toBe(3);
  }, 120_000);
});
