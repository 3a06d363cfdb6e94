import { readFileSync } from 'node:fs';
import { parse } from 'yaml';

export interface AlertRule {
  alert: string;
  expr: string;
  for?: string;
  labels: { severity: string };
  annotations: { summary: string; description: string; runbook_url: string };
}

export const alertsFile = new URL('../../charts/weir/alerts/weir.yaml', import.meta.url).pathname;

const { groups } = parse(readFileSync(alertsFile, 'utf8')) as { groups: { rules: AlertRule[] }[] };

export const alertRules: readonly AlertRule[] = groups.flatMap(({ rules }) => rules);
