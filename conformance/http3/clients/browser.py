"""What Chromium gets from Fairway: first over HTTP/2, then, as Alt-Svc says, over HTTP/3."""

import asyncio
import base64
import hashlib
import subprocess

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from devtools import chromium
from interop import MEBIBYTE, expect, pattern
from report import Result

PAGE = "https://plain.test/"
UPGRADE_TRIES = 100

# The protocol of a request, by the Performance API.
FETCH = """(async (path, options) => {
  performance.clearResourceTimings();
  const url = new URL(path + (path.includes('?') ? '&' : '?') + 'n=' + Math.random(), location.href).href;
  const response = await fetch(url, {cache: 'no-store', ...options});
  const bytes = new Uint8Array(await response.arrayBuffer());
  let entry;
  for (let tries = 0; tries < 100 && !(entry = performance.getEntriesByName(url)[0]); tries++) await new Promise(done => setTimeout(done, 10));
  const digest = new Uint8Array(await crypto.subtle.digest('SHA-256', bytes));
  return {status: response.status, headers: Object.fromEntries(response.headers), length: bytes.length, protocol: entry?.nextHopProtocol,
    text: bytes.length < 100 ? new TextDecoder().decode(bytes) : '', hash: [...digest].map(byte => byte.toString(16).padStart(2, '0')).join('')};
})"""


def key_hash(certificate):
    """Chromium's name of a certificate: the hash of its public key."""
    with open(certificate, "rb") as file:
        key = x509.load_pem_x509_certificate(file.read()).public_key()
    return base64.b64encode(hashlib.sha256(key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)).digest()).decode()


def flags(serving):
    return [
        f"--ignore-certificate-errors-spki-list={key_hash(serving.leaf)}",
        # QUIC refuses certificates of unknown authorities, except for hosts that are named here. The port is another: nothing is forced.
        "--origin-to-force-quic-on=plain.test:444",
        f"--host-resolver-rules=MAP *.test:443 127.0.0.1:{serving.port}, MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
    ]


async def fetch(browser, page, path, options="{}"):
    return await browser.evaluate(page, f"{FETCH}({path!r}, {options})")


async def upgrades(browser, page):
    """Fetches until HTTP/3 is used: Chromium races both, and remembers what Alt-Svc said."""
    first = await browser.evaluate(page, "performance.getEntriesByType('navigation')[0].nextHopProtocol")
    expect(first == "h2", f"the first response came over {first}")
    protocols = []
    for _ in range(UPGRADE_TRIES):
        found = await fetch(browser, page, "/")
        expect(found["status"] == 200 and found["text"] == "here", found)
        protocols.append(found["protocol"])
        if found["protocol"] == "h3":
            return
        await asyncio.sleep(0.05)
    raise AssertionError(f"never over h3: {set(protocols)}")


async def navigates(browser, page):
    await browser.navigate(page, PAGE + "?again")
    protocol = await browser.evaluate(page, "performance.getEntriesByType('navigation')[0].nextHopProtocol")
    expect(protocol == "h3", protocol)


async def posts(browser, page):
    size = 4 * MEBIBYTE
    body = f"Uint8Array.from({{length: {size}}}, (_, at) => at * 31 + (at >> 8) * 7 + (at >> 16))"
    options = f"{{method: 'POST', headers: {{'x-reply-size': '{size}'}}, body: {body}}}"
    found = await fetch(browser, page, "/body", options)
    wanted = hashlib.sha256(pattern(size)).hexdigest()
    expect((found["protocol"], found["status"], found["length"]) == ("h3", 200, size), found)
    expect(found["headers"]["x-request-hash"] == wanted, "another request body arrived")
    expect(found["hash"] == wanted, "another response body arrived")


async def many(browser, page):
    options = "{method: 'POST', body: 'x'.repeat(5000), headers: {'x-reply-size': '5000'}}"
    found = await browser.evaluate(page, f"Promise.all(Array.from({{length: 200}}, () => {FETCH}('/body', {options})))")
    expect(all(each["status"] == 200 and each["length"] == 5000 for each in found), found[:3])
    protocols = {each["protocol"] for each in found}
    expect(protocols == {"h3"}, protocols)


async def head(browser, page):
    found = await fetch(browser, page, "/", "{method: 'HEAD'}")
    expect((found["protocol"], found["status"], found["length"]) == ("h3", 200, 0), found)


async def early_hints(browser, page):
    found = await fetch(browser, page, "/early")
    expect((found["protocol"], found["status"], found["text"]) == ("h3", 200, "late"), found)


async def leaves(browser, page):
    """A fetch that is left in its midst; the connection serves others."""
    await browser.evaluate(page, """(async () => {
      const control = new AbortController();
      const response = await fetch('/endless?id=chromium', {signal: control.signal});
      const reader = response.body.getReader();
      for (let at = 0; at < 1 << 20; at += (await reader.read()).value.length);
      control.abort();
    })()""")
    found = await fetch(browser, page, "/")
    expect((found["protocol"], found["text"]) == ("h3", "here"), found)


async def web_socket(browser, page):
    """Which version of HTTP carries it is Chromium's choice, which no page sees."""
    back = await browser.evaluate(page, """new Promise((done, fail) => {
      const socket = new WebSocket('wss://plain.test/websocket');
      socket.onerror = () => fail(new Error('the WebSocket failed'));
      socket.onopen = () => done('open');
    })""")
    expect(back == "open", back)


CASES = [
    ("h2 first, then h3 by Alt-Svc", "RFC 7838 §2", upgrades),
    ("page", "RFC 9114 §3.1", navigates),
    ("POST of 4 MiB, and as much back", "RFC 9114 §4.1", posts),
    ("200 requests at once", "RFC 9114 §4.1", many),
    ("HEAD", "RFC 9110 §9.3.2", head),
    ("103 before the response", "RFC 8297", early_hints),
    ("client leaves a response", "RFC 9114 §4.1.1", leaves),
    ("WebSocket", "RFC 9220", web_socket),
]


def version(program):
    return subprocess.run([program, "--version"], capture_output=True, text=True, timeout=30).stdout.strip().removeprefix("Chromium ").split(" ")[0]


async def browse(serving, results, match, program):
    async with chromium(program, *flags(serving)) as browser:
        page = await browser.page(PAGE)
        for name, rule, check in CASES:
            if match not in name and check is not upgrades:
                continue
            try:
                await check(browser, page)
                got = "right"
            except (AssertionError, ConnectionError, TimeoutError, KeyError) as error:
                got = f"{type(error).__name__}: {error}"
            results.add(Result("chromium", name, rule, "right", got, got == "right"))
