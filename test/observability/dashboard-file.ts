import { readFileSync } from 'node:fs';

interface Panel {
  id: number;
  title: string;
  type: string;
  targets?: { expr: string }[];
  gridPos: { h: number; w: number; x: number; y: number };
  options?: { content?: string };
}

interface Dashboard {
  title: string;
  uid: string;
  panels: Panel[];
  templating: { list: { name: string; definition?: string }[] };
  annotations: { list: { name: string; expr: string }[] };
}

const file = new URL('../../charts/weir/dashboards/weir.json', import.meta.url);

export const dashboard = JSON.parse(readFileSync(file, 'utf8')) as Dashboard;

/** Every expression with where it stands; variables of Grafana are as they are. */
export const dashboardExpressions: readonly { place: string; expr: string }[] = [
  ...dashboard.panels.flatMap(({ title, targets = [] }) =>
    targets.map(({ expr }) => ({ place: title, expr })),
  ),
  ...dashboard.annotations.list.map(({ name, expr }) => ({ place: name, expr })),
  ...dashboard.templating.list.flatMap(({ name, definition = '' }) => {
    const [, expr] = /^label_values\((.*), \w+\)$/.exec(definition) ?? [];
    return expr === undefined ? [] : [{ place: `the variable ${name}`, expr }];
  }),
];

/** As Prometheus would get it. */
export function withoutVariables(expr: string): string {
  return expr.replaceAll('$__rate_interval', '5m').replaceAll('$__range', '1h');
}
