"""What libcurl gets from Fairway with ngtcp2 and nghttp3, as the package curl-cffi has them."""

import asyncio
import hashlib
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from curl_cffi import Curl, CurlError, CurlHttpVersion, CurlInfo, CurlOpt

from interop import HOSTS, MEBIBYTE, expect, pattern
from report import Result

AT_ONCE = 32
TIMEOUT_MS = 30_000


@dataclass
class Answer:
    # The version of HTTP as libcurl numbers it.
    version: int = 0
    # Heads and trailers as they come, each a list of lines.
    heads: list = field(default_factory=list)
    body: bytes = b""

    @property
    def statuses(self):
        return [head[0].split(" ")[1] for head in self.heads if head[0].startswith("HTTP/")]

    @property
    def lines(self):
        return [line.lower() for head in self.heads for line in head]


def request(serving, host="plain.test", path="/", version=CurlHttpVersion.V3ONLY, body=None, headers=(), options=None, times=1):
    """The last of some requests on one handle."""
    curl, answer = Curl(), Answer()
    try:
        for _ in range(times):
            answer, body_parts, ended = Answer(), [], [True]

            def on_header(line, answer=answer, ended=ended):
                text = line.decode().rstrip("\r\n")
                if not text:
                    ended[0] = True
                elif ended[0]:
                    answer.heads.append([text])
                    ended[0] = False
                else:
                    answer.heads[-1].append(text)
                return len(line)

            def on_body(piece, parts=body_parts):
                parts.append(bytes(piece))
                return len(piece)

            curl.setopt(CurlOpt.URL, f"https://{host}:{serving.port}{path}".encode())
            curl.setopt(CurlOpt.HTTP_VERSION, version)
            curl.setopt(CurlOpt.RESOLVE, [f"{host}:{serving.port}:127.0.0.1"])
            curl.setopt(CurlOpt.CAINFO, serving.authority.encode())
            curl.setopt(CurlOpt.TIMEOUT_MS, TIMEOUT_MS)
            curl.setopt(CurlOpt.HEADERFUNCTION, on_header)
            curl.setopt(CurlOpt.WRITEFUNCTION, on_body)
            curl.setopt(CurlOpt.HTTPHEADER, [header.encode() for header in headers])
            if body is not None:
                curl.setopt(CurlOpt.POSTFIELDSIZE, len(body))
                curl.setopt(CurlOpt.POSTFIELDS, body)
            for option, value in (options or {}).items():
                curl.setopt(option, value)
            curl.perform()
            answer.version = curl.getinfo(CurlInfo.HTTP_VERSION)
            answer.body = b"".join(body_parts)
        return answer
    finally:
        curl.close()


def get(serving, host):
    answer = request(serving, host, times=5)
    expect((answer.version, answer.statuses, answer.body) == (CurlHttpVersion.V3, ["200"], b"here"), answer)


def head(serving, host):
    answer = request(serving, host, options={CurlOpt.NOBODY: 1})
    expect((answer.statuses, answer.body) == (["200"], b""), answer)


def not_found(serving, host):
    answer = request(serving, host, headers=["host: nowhere.test"])
    expect(answer.statuses in (["404"], ["421"]), answer)


def post(serving, host):
    body, back = os.urandom(8 * MEBIBYTE), 4 * MEBIBYTE
    answer = request(serving, host, "/body", body=body, headers=[f"x-reply-size: {back}", "expect:"])
    expect(answer.statuses == ["200"], answer.heads)
    expect(f"x-request-hash: {hashlib.sha256(body).hexdigest()}" in answer.lines, "another request body arrived")
    expect(hashlib.sha256(answer.body).digest() == hashlib.sha256(pattern(back)).digest(), f"another response body: {len(answer.body)} bytes")


def trailers(serving, host):
    answer = request(serving, host, "/body", body=b"body", headers=["x-wants-trailer: yes", "te: trailers"])
    expect(f"x-reply-trailer: {hashlib.sha256(b'body').hexdigest()}" in answer.lines, answer.heads)


def early_hints(serving, host):
    answer = request(serving, host, "/early")
    expect((answer.statuses, answer.body) == (["103", "200"], b"late"), answer)
    expect("link: </style.css>; rel=preload" in [line.lower() for line in answer.heads[0]], answer.heads)


def continues(serving, host):
    answer = request(serving, host, "/body", body=b"x" * MEBIBYTE * 2, headers=["expect: 100-continue"])
    expect(answer.statuses == ["100", "200"], answer.heads)


def many(serving, host):
    def one(_):
        return request(serving, host, "/body", body=b"x" * 10_000, headers=["x-reply-size: 10000"], times=5)

    with ThreadPoolExecutor(AT_ONCE) as pool:
        answers = list(pool.map(one, range(AT_ONCE)))
    expect(all(answer.statuses == ["200"] and len(answer.body) == 10_000 for answer in answers), [answer.heads for answer in answers][:2])


def alt_svc(serving, host):
    """The second request uses what the first one's response said."""
    every = 1 << 3 | 1 << 4 | 1 << 5
    answer = request(serving, host, version=CurlHttpVersion.V2TLS, options={CurlOpt.ALTSVC_CTRL: every})
    expect(answer.version == CurlHttpVersion.V2_0, answer)
    expect(any(line.startswith("alt-svc: h3=") for line in answer.lines), answer.heads)


CASES = [
    ("GET, 5 times", "RFC 9114 §4", get),
    ("HEAD", "RFC 9110 §9.3.2", head),
    ("name that is not served", "RFC 9110 §15.5", not_found),
    ("POST of 8 MiB, and 4 MiB back", "RFC 9114 §4.1", post),
    ("trailers of the response", "RFC 9114 §4.1", trailers),
    ("103 before the response", "RFC 8297", early_hints),
    ("100 before the body", "RFC 9110 §10.1.1", continues),
    (f"{AT_ONCE} connections at once", "RFC 9114 §4.1", many),
    ("Alt-Svc over HTTP/2", "RFC 7838 §3", alt_svc),
]


def version():
    curl = Curl()
    try:
        return " ".join(each for each in curl.version().decode().split(" ") if each.startswith(("libcurl/", "ngtcp2/", "nghttp3/")))
    finally:
        curl.close()


async def transfer(serving, results, match):
    for host, protocol in HOSTS.items():
        for name, rule, check in CASES:
            if match not in name:
                continue
            try:
                await asyncio.to_thread(check, serving, host)
                got = "right"
            except (AssertionError, CurlError) as error:
                got = f"{type(error).__name__}: {str(error)[:400]}"
            results.add(Result("curl", f"{name}; endpoint over {protocol}", rule, "right", got, got == "right"))
