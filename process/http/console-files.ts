/** `/console`: a page, its modules and styles from the package, and the two libraries. Static and without data. */
import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { extname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { HttpCall } from './http-server.ts';
import { sendError, sendNotFound } from './text-response.ts';

const contentTypes: Readonly<Record<string, string>> = {
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.svg': 'image/svg+xml',
};

const securityPolicy = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self'",
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
  "require-trusted-types-for 'script'",
  'trusted-types lit-html',
].join('; ');

/** Browsers ask for files that a release may change at each visit, and get 304 if they are unchanged. */
const headers: Readonly<Record<string, string>> = {
  'Content-Security-Policy': securityPolicy,
  'X-Content-Type-Options': 'nosniff',
  'Referrer-Policy': 'no-referrer',
  'Cross-Origin-Opener-Policy': 'same-origin',
  'Cross-Origin-Resource-Policy': 'same-origin',
  'Cache-Control': 'no-cache',
};

const root = '/console';
const ownFile = /^\/console\/files\/([a-z-]+\.(?:js|css|svg))$/;
/** The same path below /console and below the package, so that modules have one path for the browser and for the compiler. */
const libraryFile =
  /^\/console\/node_modules\/(lit-html\/lit-html\.js|uplot\/dist\/uPlot\.(?:esm\.js|min\.css))$/;

export const isOfConsole = (path: string | undefined): boolean =>
  path === root || path?.startsWith(`${root}/`) === true;

/** Answers the paths of `isOfConsole`. */
export class ConsoleFiles {
  readonly #page: string;

  constructor(page: 'limiter.html' | 'control-plane.html') {
    this.#page = page;
  }

  async answer({ target, request, response }: HttpCall): Promise<void> {
    const file = this.#fileOf(target.path);
    if (file === undefined) return sendNotFound(response);
    if (request.method !== 'GET' && request.method !== 'HEAD') {
      response.setHeader('Allow', 'GET, HEAD');
      return sendError(response, 405, 'Method Not Allowed');
    }
    const bytes = await readFile(file);
    const tag = `"${createHash('sha256').update(bytes).digest('base64url')}"`;
    for (const [name, value] of Object.entries(headers)) response.setHeader(name, value);
    response.setHeader('ETag', tag);
    if (request.headers['if-none-match'] === tag) {
      response.statusCode = 304;
      response.end();
      return;
    }
    response.setHeader('Content-Type', contentTypes[extname(file)] as string);
    response.setHeader('Content-Length', bytes.length);
    response.end(bytes);
  }

  #fileOf(path: string): string | undefined {
    if (path === root) return inFolders(consoleFolders, this.#page);
    const own = ownFile.exec(path)?.[1];
    if (own !== undefined) return inFolders(consoleFolders, own);
    const library = libraryFile.exec(path)?.[1];
    return library === undefined ? undefined : inFolders(libraryFolders(), library);
  }
}

/** The folder is two levels up in the sources and in the image, three in dist/. */
const consoleFolders = ['../../console', '../../../console'].map((path) =>
  fileURLToPath(new URL(path, import.meta.url)),
);

function libraryFolders(): readonly string[] {
  return createRequire(import.meta.url).resolve.paths('lit-html') ?? [];
}

function inFolders(folders: readonly string[], name: string): string | undefined {
  return folders.map((folder) => join(folder, name)).find(existsSync);
}
