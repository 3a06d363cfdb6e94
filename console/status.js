/** Store, breaker, rules, sinks, versions: what this limiter is and stands on. */
import { answered, badge, html, table } from './parts.js';
import { duration, measured, milliseconds, moment, number, shown } from './text.js';

/** @type {import('./shell.js').View} */
export const status = {
  id: 'limiter',
  label: 'Limiter',
  draw: (desk) =>
    answered(
      desk.live('status', 2_000),
      ({ limiter, ready, failing, rules, store, rates, sinks = [], changes = {} }) => html`
      <div class="cards">
        ${card('Limiter', [
          ['Name', shown(limiter.name)],
          ['Instance', shown(limiter.instance)],
          ['Version', limiter.version],
          ['Node', limiter.node],
          ['Process', limiter.pid],
          [
            'Runs for',
            html`${duration((Date.now() - Date.parse(limiter.startedAt)) / 1_000)} <span class="faint">since ${moment(limiter.startedAt)}</span>`,
          ],
          ['Ready', ready ? badge('good', 'yes') : badge('bad', failing.join(', '))],
        ])}
        ${card('Store', [
          ['Kind', store.type],
          ['Connected', store.connected ? badge('good', 'yes') : badge('bad', 'no')],
          ['Breaker', badge(store.breaker === 'open' ? 'bad' : 'good', store.breaker)],
          ...(store.openSince
            ? [/** @type {[string, unknown]} */ (['Open since', moment(store.openSince)])]
            : []),
          ['On store failure', store.failureMode],
          ['Leases', store.leases ? 'yes' : 'no'],
        ])}
        ${card('Rules', [
          ['Version', shown(rules.version)],
          ['From', rules.source],
          ['Domains, rules', `${number(rules.domains)}, ${number(rules.rules)}`],
          ['Loaded', moment(rules.loadedAt)],
          [
            'Last load',
            rules.lastLoadFailed
              ? badge('bad', 'failed; the previous rules stay in force')
              : badge('good', 'good'),
          ],
          ['Overrides', number(rules.overrides)],
        ])}
        ${card(`Per second, ${measured(rates)}`, [
          ['Decisions', number(rates.decisions)],
          ['Hits passed', number(rates.allowed)],
          ['Hits limited', number(rates.limited)],
          ['Near limit', number(rates.nearLimit)],
          ['Shadowed', number(rates.shadow)],
          ['gRPC p50, p99', html`${milliseconds(rates.p50Ms)}, ${milliseconds(rates.p99Ms)}`],
          ['HTTP p50, p99', html`${milliseconds(rates.httpP50Ms)}, ${milliseconds(rates.httpP99Ms)}`],
        ])}
      </div>
      <div class="two">
        <section><h2>Statistics exporters</h2>${table(
          'Sinks',
          [
            { label: 'Sink', cell: ({ name }) => name },
            { label: 'Lines dropped', isNumber: true, cell: ({ linesDropped }) => number(linesDropped) },
          ],
          sinks,
          'No exporter of statistics is configured.',
        )}</section>
        <section><h2>Changes by operators since the start</h2>${table(
          'Changes',
          [
            { label: 'Change', cell: ([name]) => name.replaceAll('-', ' ') },
            { label: 'Times', isNumber: true, cell: ([, count]) => number(count) },
          ],
          Object.entries(changes).filter(([, count]) => count > 0),
          'No changes.',
        )}</section>
      </div>`,
    ),
};

/** @param {string} title @param {[string, unknown][]} rows */
export const card = (title, rows) =>
  html`<section class="panel"><h2>${title}</h2><dl class="facts">${rows.map(([label, value]) => html`<div><dt>${label}</dt><dd>${value}</dd></div>`)}</dl></section>`;
