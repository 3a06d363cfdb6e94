/** The recording in docs/pictures is what the programs print now, and pictures are such that browsers show them. */
import { spawnSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';

import { describeWithServer } from '../support/describe-with-server.ts';
import { projectRoot } from '../support/documents.ts';
import { xmllintProgram } from '../support/find-server.ts';

const pictures = ['docs', 'docs/pictures'].flatMap((folder) =>
  readdirSync(join(projectRoot, folder))
    .filter((name) => name.endsWith('.svg'))
    .map((name) => join(folder, name)),
);

it('docs/pictures/story.svg shows what its commands print', () => {
  const { status, stderr } = spawnSync(process.execPath, ['scripts/record.ts', '--check'], {
    cwd: projectRoot,
    encoding: 'utf8',
    timeout: 150_000,
  });
  expect([status, stderr]).toEqual([0, '']);
}, 160_000);

it('docs/pictures/story.svg ends well: a 429, and none after the change', () => {
  const svg = readFileSync(join(projectRoot, 'docs/pictures/story.svg'), 'utf8');
  const codes = svg.replaceAll(/<[^>]*>/g, '').match(/^(?:\d{3} ){5}\d{3}$/gm);
  expect(codes).toEqual(['200 200 200 200 200 429', '200 200 200 200 200 200']);
});

describeWithServer('pictures', xmllintProgram, (xmllint) => {
  it.each(pictures)('%s is well-formed, and says what it shows', (picture) => {
    const { status, stderr } = spawnSync(xmllint, ['--noout', join(projectRoot, picture)], {
      encoding: 'utf8',
    });
    expect([status, stderr]).toEqual([0, '']);
    const svg = readFileSync(join(projectRoot, picture), 'utf8');
    expect(svg).toMatch(/role="img" aria-labelledby="title desc"/);
    expect(svg).not.toMatch(/<script|(?:href|src)=|url\((?!#)|@import/);
  });
});
