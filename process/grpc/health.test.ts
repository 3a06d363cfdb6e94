import { expect, it } from 'vitest';
import { Health } from './health.ts';

it('Health names what is not well', () => {
  const health = new Health();
  health.set('redis', false);
  health.set('config', false);
  health.set('sigterm', true);
  expect(health.failing).toEqual(['config', 'redis']);
  health.set('redis', true);
  health.set('config', true);
  expect([health.failing, health.healthy]).toEqual([[], true]);
});
