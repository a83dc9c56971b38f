// Fairway and its backends as processes on loopback ports, with some requests behind them, so that no page is empty.

import { spawn } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import http from 'node:http';
import net from 'node:net';
import os from 'node:os';
import path from 'node:path';

import { write } from './manifests.mjs';

const START_TIMEOUT = 120_000;
const HOST = '127.0.0.1';

// Starts everything for `routes` routes; `stop` ends it and removes its files.
export async function start(fairway, routes) {
  const folder = mkdtempSync(path.join(os.tmpdir(), 'fairway-dashboard-'));
  const names = ['web', 'next', 'gone', 'gateway', 'tcp', 'http', 'https', 'admin'];
  const ports = Object.fromEntries(await Promise.all(names.map(async (name) => [name, await freePort()])));
  const running = [];
  const stop = () => {
    running.forEach((process) => process.kill('SIGKILL'));
    rmSync(folder, { recursive: true, force: true });
  };
  const run = (...args) => {
    // From the folder, so that pages name files as people do.
    const process = spawn(fairway, args, { cwd: folder, stdio: ['ignore', 'ignore', 'pipe'] });
    process.log = '';
    process.stderr.on('data', (text) => { process.log = (process.log + text).slice(-4000); });
    running.push(process);
    return process;
  };
  try {
    mkdirSync(path.join(folder, 'manifests'));
    write(path.join(folder, 'manifests'), routes, ports);
    for (const name of ['web', 'next']) run('echo', '--listen', `${HOST}:${ports[name]}`, '--name', name);
    const proxy = run('run', '--manifests', 'manifests', '--http', `${HOST}:${ports.http}`, '--https', `${HOST}:${ports.https}`,
      '--admin', `${HOST}:${ports.admin}`, '--gateway-address', HOST, '--workers', '2', '--access-log', 'off');
    const url = `http://${HOST}:${ports.admin}`;
    await ready(url, proxy);
    const end = await traffic(ports);
    return { url, stop: () => { end(); stop(); } };
  } catch (error) {
    stop();
    throw error;
  }
}

async function ready(url, process) {
  const deadline = Date.now() + START_TIMEOUT;
  for (;;) {
    if (process.exitCode !== null) throw new Error(`fairway ended with ${process.exitCode}: ${process.log}`);
    if (Date.now() > deadline) throw new Error(`fairway is not ready after ${START_TIMEOUT / 1000} s: ${process.log}`);
    const status = await fetch(`${url}/readyz`).then((response) => response.status, () => 0);
    if (status === 200) return;
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}

// Requests that succeed and requests that fail, a connection that stays open, and ten requests a second until what it gives is called.
async function traffic(ports) {
  const agent = new http.Agent({ keepAlive: true, maxSockets: 4 });
  const ask = (host, path, port = ports.http, method = 'GET') => new Promise((resolve, reject) => {
    const request = http.request({ host: HOST, port, path, method, agent, headers: { host, 'user-agent': 'shop-app/2.1' } });
    request.on('response', (response) => { response.resume(); response.on('end', () => resolve(response.statusCode)); });
    request.on('error', reject);
    request.end();
  });
  const paths = ['/', '/cart', '/search?q=boots', '/products/4711', '/login'];
  const shop = (at) => ask('shop.example.com', paths[at % paths.length]);
  for (let at = 0; at < 100; at += 1) await shop(at);
  for (let at = 0; at < 10; at += 1) await ask('blog.example.com', '/2026/11', ports.gateway);
  for (const path of ['/', '/accounts/12', '/invoices/7']) await ask('billing.example.com', path);
  await ask('billing.example.com', '/accounts', ports.http, 'POST');
  await ask('wiki.example.com', '/', ports.gateway);
  for (const host of ['nowhere.example.com', '203.0.113.9']) await ask(host, '/.env');
  const tcp = net.connect(ports.tcp, HOST);
  tcp.on('error', () => {});
  await new Promise((resolve) => tcp.once('connect', resolve));
  let at = 0;
  // What is under way at the end may fail.
  const steady = setInterval(() => { shop(at += 1).catch(() => {}); }, 100);
  return () => { clearInterval(steady); tcp.destroy(); agent.destroy(); };
}

function freePort() {
  return new Promise((resolve, reject) => {
    const server = net.createServer();
    server.on('error', reject);
    server.listen(0, HOST, () => {
      const { port } = server.address();
      server.close(() => resolve(port));
    });
  });
}
