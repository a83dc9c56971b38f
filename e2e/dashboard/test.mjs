// The dashboard in Chromium: every page, light and dark, wide and narrow, with and without JavaScript. CONTRIBUTING.md says how to run it.
//
// It fails where axe finds a violation, where a page asks another origin for something, writes an error to the console, scrolls sideways
// or has something that the keyboard does not reach; with --times, also where a page takes too long.

import { spawnSync } from 'node:child_process';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';
import { parseArgs } from 'node:util';

import { chromium } from 'playwright-core';

import { start } from './serving.mjs';

const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
const PAGES = [
  { path: '', name: 'overview' },
  { path: 'hosts', name: 'hosts' },
  { path: 'hosts?q=shop', name: 'hosts-found' },
  { path: 'host?table=ingress&host=shop.example.com', name: 'host' },
  { path: 'rule?object=Ingress/shop/shop', name: 'rule' },
  { path: 'backend?name=shop/web:http', name: 'backend' },
  { path: 'listeners', name: 'listeners' },
  { path: 'streams', name: 'streams' },
  { path: 'connections', name: 'connections' },
  { path: 'generations', name: 'generations' },
  { path: 'requests', name: 'requests' },
  { path: 'requests?all=true', name: 'requests-all' },
  { path: 'certificates', name: 'certificates' },
  { path: 'gateways', name: 'gateways' },
  { path: 'diagnostics', name: 'diagnostics' },
  { path: 'explain', name: 'explain-form' },
  { path: 'explain?url=https://shop.example.com/cart', name: 'explain' },
  { path: 'explain?url=ftp://shop.example.com/', name: 'explain-refused', status: 400 },
  { path: 'none', name: 'missing', status: 404 },
];
// Those in docs/observe.md, as large as a window, from its top or from a heading on.
const PICTURES = { overview: null, rule: 'Filters', requests: null, explain: null };
const MAX_PICTURE = 80_000;
const WIDTHS = [1280, 400];
const HEIGHT = 900;
// The most that a page may take, in milliseconds, by the number of routes.
const LIMITS = { 5000: 1000, 100000: 2000 };
const LOADS = 5;
// A connection to the admin server ends after a minute at most. The overview is opened on one that is half as old.
const OLDER = 25_000;
const WATCHED = 65_000;
const MAX_TABS = 3000;

const { values: options } = parseArgs({
  options: {
    fairway: { type: 'string' },
    url: { type: 'string' },
    routes: { type: 'string', default: '5000,100000' },
    out: { type: 'string' },
    pictures: { type: 'string' },
    times: { type: 'boolean', default: false },
    chromium: { type: 'string', default: process.env.CHROMIUM ?? 'chromium' },
  },
});
if (!options.fairway === !options.url) {
  console.error('usage: node test.mjs --fairway PROGRAM [--routes 5000,100000] | --url http://ADDRESS\n' +
    '       [--out FOLDER] [--pictures FOLDER] [--times] [--chromium PROGRAM]');
  process.exit(2);
}
for (const folder of [options.out, options.pictures]) if (folder) mkdirSync(folder, { recursive: true });

const failures = [];
const fail = (where, what) => {
  failures.push(`${where}: ${what}`);
  console.log(`FAILED ${where}: ${what}`);
};

const program = spawnSync('sh', ['-c', 'command -v "$1"', 'sh', options.chromium], { encoding: 'utf8' }).stdout.trim();
if (!program) {
  console.error(`${options.chromium} is not installed; --chromium or CHROMIUM names another Chromium`);
  process.exit(2);
}
const browser = await chromium.launch({ executablePath: program, args: ['--no-sandbox', '--disable-dev-shm-usage'] });
try {
  if (options.url) {
    await testOf(options.url.replace(/\/$/, ''), 0, true);
  } else {
    const sizes = options.routes.split(',').map(Number);
    // Every check is made with the fewest routes. More routes make longer lists, which have the same pages, and take more time.
    for (const [at, routes] of sizes.entries()) {
      const serving = await start(path.resolve(options.fairway), routes);
      try {
        await testOf(serving.url, routes, at === 0);
      } finally {
        serving.stop();
      }
    }
  }
} finally {
  await browser.close();
}
console.log(failures.length ? `${failures.length} failures` : 'no violation, no request off the origin, no error');
process.exitCode = failures.length ? 1 : 0;

async function testOf(url, routes, isWhole) {
  const watched = isWhole ? watchStream(url) : Promise.resolve();
  if (isWhole) {
    for (const scheme of ['light', 'dark']) {
      for (const width of WIDTHS) {
        for (const js of [true, false]) await visit(url, { scheme, width, js });
      }
    }
    for (const width of WIDTHS) await useKeyboard(url, width);
    await takePictures(url);
  }
  await watched;
  await measure(url, routes);
}

// A context whose pages may ask nobody but the server, and say nothing on their consoles.
async function context(url, { scheme = 'light', width = WIDTHS[0], js = true } = {}) {
  const context = await browser.newContext({
    viewport: { width, height: HEIGHT }, colorScheme: scheme, javaScriptEnabled: js,
  });
  const page = await context.newPage();
  const state = { where: '', status: 200 };
  page.on('request', (request) => {
    if (!request.url().startsWith(`${url}/`)) fail(state.where, `asks ${request.url()}`);
  });
  page.on('console', (message) => {
    // What Chromium says of a page whose own status is no success.
    const isStatus = state.status !== 200 && message.text().includes(`status of ${state.status}`);
    if (['error', 'warning'].includes(message.type()) && !isStatus) fail(state.where, `console: ${message.text()}`);
  });
  page.on('pageerror', (error) => fail(state.where, `script: ${error.message}`));
  const open = async ({ path, name, status = 200 }) => {
    Object.assign(state, { where: `${name} ${scheme} ${width}${js ? '' : ' without JavaScript'}`, status });
    const response = await page.goto(`${url}/dashboard/${path}`, { waitUntil: 'load' });
    if (response.status() !== status) fail(state.where, `status ${response.status()}`);
    return state.where;
  };
  return { page, open, close: () => context.close() };
}

async function visit(url, look) {
  const { page, open, close } = await context(url, look);
  for (const of of PAGES) {
    const where = await open(of);
    // Without JavaScript no timer ends, and axe uses some to give others their turn.
    if (!look.js) await page.evaluate(() => { window.setTimeout = (act, _, ...given) => { Promise.resolve().then(() => act(...given)); return 0; }; });
    await page.evaluate(AXE);
    const { violations } = await page.evaluate((preload) => axe.run({ preload }), look.js);
    for (const { id, nodes } of violations) fail(where, `${id}: ${nodes.map((node) => node.html.slice(0, 160)).join(' | ')}`);
    const wide = await page.evaluate(() => [document.documentElement.scrollWidth, document.documentElement.clientWidth]);
    if (wide[0] > wide[1]) fail(where, `${wide[0]} pixels wide in a window of ${wide[1]}`);
    if (options.out && look.js) {
      await page.screenshot({ path: path.join(options.out, `${of.name}-${look.scheme}-${look.width}.png`), fullPage: true });
    }
  }
  await close();
}

// Everything that can be used is reached by Tab, in the order of the page, and can be seen while it has the focus.
async function useKeyboard(url, width) {
  const { page, open, close } = await context(url, { width });
  for (const of of PAGES) {
    const where = await open(of);
    const count = await page.evaluate(() => {
      const all = [...document.querySelectorAll('a[href], button, input, select, textarea, [tabindex="0"]')];
      all.forEach((element, at) => { element.dataset.stop = at; });
      return all.length;
    });
    if (count > MAX_TABS) fail(where, `${count} stops`);
    for (let at = 0; at < Math.min(count, MAX_TABS); at += 1) {
      await page.keyboard.press('Tab');
      const focus = await page.evaluate(() => {
        const element = document.activeElement;
        const { outlineStyle, outlineWidth } = getComputedStyle(element);
        const box = element.getBoundingClientRect();
        return {
          stop: element.dataset.stop,
          html: element.outerHTML.slice(0, 120),
          isOutlined: outlineStyle !== 'none' && parseFloat(outlineWidth) >= 2,
          isInside: box.bottom > 0 && box.top < innerHeight && box.right > 0 && box.left < innerWidth && box.width > 0,
        };
      });
      if (focus.stop !== String(at)) {
        fail(where, `stop ${at} is not reached, but ${focus.stop}: ${focus.html}`);
        break;
      }
      if (!focus.isOutlined || !focus.isInside) fail(where, `the focus cannot be seen: ${focus.html}`);
    }
    await page.evaluate(() => document.querySelector('.skip').focus());
    await page.keyboard.press('Enter');
    if (await page.evaluate(() => document.activeElement.id) !== 'content') fail(where, 'the skip link does not lead to the content');
  }
  await close();
}

// The numbers of the overview go on when the server has ended their stream, and the console stays empty.
async function watchStream(url) {
  const { page, open, close } = await context(url);
  await open(PAGES.find((page) => page.name === 'hosts'));
  await page.waitForTimeout(OLDER);
  const where = await open({ ...PAGES[0], name: 'overview, watched' });
  await page.evaluate(() => {
    window.updates = 0;
    new MutationObserver(() => { window.updates += 1; }).observe(document.querySelector('[data-live=rate]'), { childList: true, characterData: true, subtree: true });
  });
  const said = () => page.textContent('[data-live-state]');
  await page.waitForFunction(() => document.querySelector('[data-live-state]').textContent.includes('every 2 seconds'))
    .catch(() => fail(where, 'the numbers are not updated'));
  await page.waitForTimeout(WATCHED);
  // It may be between two streams.
  await page.waitForFunction(() => document.querySelector('[data-live-state]').textContent.includes('every 2 seconds'), null, { timeout: 15_000 })
    .catch(async () => fail(where, `after the end of the stream: ${await said()}`));
  await close();
}

// The pictures of the documents.
async function takePictures(url) {
  if (!options.pictures) return;
  const { page, open, close } = await context(url);
  const devtools = await page.context().newCDPSession(page);
  for (const [name, heading] of Object.entries(PICTURES)) {
    await open(PAGES.find((page) => page.name === name));
    await page.evaluate((heading) => {
      [...document.querySelectorAll('h2')].find((found) => found.textContent === heading)?.scrollIntoView();
    }, heading);
    if (name === 'overview') await page.waitForFunction(() => parseFloat(document.querySelector('[data-live=rate]').textContent) > 0);
    let picture;
    for (const quality of [75, 65, 55, 45]) {
      picture = Buffer.from(await capture(devtools, quality), 'base64');
      if (picture.length <= MAX_PICTURE) break;
    }
    if (picture.length > MAX_PICTURE) fail(`dashboard-${name}.webp`, `${picture.length} bytes are more than ${MAX_PICTURE}`);
    writeFileSync(path.join(options.pictures, `dashboard-${name}.webp`), picture);
  }
  await close();
}

// Chromium captures nothing while the page has no frame yet, as on a busy machine.
async function capture(devtools, quality) {
  for (let left = 20; ; left -= 1) {
    try {
      return (await devtools.send('Page.captureScreenshot', { format: 'webp', quality })).data;
    } catch (error) {
      if (left === 0) throw error;
      await new Promise((resolve) => setTimeout(resolve, 250));
    }
  }
}

// How long pages take, each several times in a context of its own: the middle one, and the longest.
async function measure(url, routes) {
  const limit = LIMITS[routes];
  console.log(`\n${routes || 'unknown number of'} routes${limit ? `, at most ${limit} ms` : ''}: ms from the navigation to the load event`);
  console.log('page'.padEnd(18), 'median'.padStart(7), 'longest'.padStart(8));
  for (const of of PAGES) {
    const times = [];
    for (let load = 0; load < LOADS; load += 1) {
      const { page, open, close } = await context(url);
      await open(of);
      times.push(await page.evaluate(() => performance.getEntriesByType('navigation')[0].loadEventEnd));
      await close();
    }
    times.sort((one, other) => one - other);
    const [median, longest] = [times[times.length >> 1], times.at(-1)].map(Math.round);
    console.log(of.name.padEnd(18), String(median).padStart(7), String(longest).padStart(8));
    if (options.times && limit && longest > limit) fail(`${of.name} with ${routes} routes`, `${longest} ms`);
  }
}
