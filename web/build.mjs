// SPDX-License-Identifier: Apache-2.0
// Usage: build.mjs bundle|test MODULES OUT
//   bundle  writes the files of the page to OUT, each also compressed, and their hash
//   test    bundles src/*.test.ts for node and runs them
// MODULES is the node_modules folder that `npm ci` made of package-lock.json; it need not be here.
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { gzipSync } from 'node:zlib';

const [, , what, modules, out] = process.argv;
const sources = join(dirname(fileURLToPath(import.meta.url)), 'src');
const esbuild = createRequire(join(modules, 'index.js'))('esbuild');
const shared = {
  bundle: true, nodePaths: [modules], jsx: 'automatic', jsxImportSource: 'preact',
  legalComments: 'none', logLevel: 'warning', tsconfigRaw: '{}',
};

// What the licences of the libraries ask for is kept in the script itself.
const notice = '/* Leat console, Apache-2.0. Holds Preact (MIT, Jason Miller) and uPlot (MIT, ' +
  'Leon Sorokin). */';

function bundle() {
  mkdirSync(out, { recursive: true });
  esbuild.buildSync({
    ...shared, entryPoints: [join(sources, 'console.tsx')], outfile: join(out, 'console.js'),
    format: 'iife', target: ['chrome100', 'firefox100', 'safari15.4'], minify: true,
    charset: 'utf8', banner: { js: notice }, define: { 'process.env.NODE_ENV': '"production"' },
  });
  esbuild.buildSync({
    ...shared, entryPoints: [join(sources, 'console.css')], outfile: join(out, 'console.css'),
    minify: true, target: ['chrome100', 'firefox100', 'safari15.4'],
  });
  for (const name of ['index.html', 'icon.svg']) {
    writeFileSync(join(out, name), readFileSync(join(sources, name)));
  }
  const hash = createHash('sha256');
  for (const name of ['index.html', 'console.js', 'console.css', 'icon.svg']) {
    const content = readFileSync(join(out, name));
    hash.update(`${name} ${content.length}\n`).update(content);
    writeFileSync(join(out, `${name}.gz`), gzipSync(content, { level: 9 }));
  }
  const digest = hash.digest('hex').slice(0, 32);
  writeFileSync(join(out, 'console_bundle.h'),
    `// Made by web/build.mjs.\n#pragma once\n#define LEAT_CONSOLE_BUNDLE "${digest}"\n`);
}

function test() {
  rmSync(out, { recursive: true, force: true });
  const names = readdirSync(sources).filter((name) => name.endsWith('.test.ts'));
  esbuild.buildSync({
    ...shared, entryPoints: names.map((name) => join(sources, name)), outdir: out,
    format: 'esm', platform: 'node', target: 'node18', outExtension: { '.js': '.mjs' },
  });
  const files = names.map((name) => join(out, name.replace(/\.ts$/, '.mjs')));
  const done = spawnSync(process.execPath, ['--test', ...files], { stdio: 'inherit' });
  process.exit(done.status ?? 1);
}

if (what === 'bundle') bundle();
else if (what === 'test') test();
else throw new Error('usage: build.mjs bundle|test MODULES OUT');
