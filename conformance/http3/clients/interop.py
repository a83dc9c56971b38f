"""What aioquic's client gets from Fairway."""

import asyncio
import hashlib
import os

from aioquic.quic.packet import QuicProtocolVersion

from client import REQUEST_TIMEOUT, http
from report import Result

MEBIBYTE = 1 << 20
AT_ONCE = 100
# Of the form 0x?a?a?a?a, which no version has (RFC 9000 §15).
RESERVED_VERSION = 0x1A2A3A4A
HOSTS = {"plain.test": "HTTP/1.1", "h2c.test": "HTTP/2"}


def expect(condition, detail):
    if not condition:
        raise AssertionError(detail)


def pattern(size):
    """The bytes that the endpoint sends."""
    return bytes((at * 31 + (at >> 8) * 7 + (at >> 16)) & 0xFF for at in range(size))


async def get(client):
    response = await client.request("GET", "/")
    expect(response.status == 200 and response.body == b"here" and response.headers["content-length"] == "4", response)


async def not_found(client):
    stream = client.open("GET", "/", ends=True, authority="nowhere.test")
    response = await client.response(stream)
    # Another name than that of the handshake: the host is unknown, or the request is misdirected (RFC 9110 §15.5.20).
    expect(response.status in (404, 421), response.status)


async def transfer(client, size=8 * MEBIBYTE, back=4 * MEBIBYTE):
    body = os.urandom(size)
    response = await client.request("POST", "/body", [("content-length", str(size)), ("x-reply-size", str(back))], body)
    expect(response.status == 200, response.status)
    expect(response.headers["x-request-hash"] == hashlib.sha256(body).hexdigest(), "another request body arrived")
    expect(hashlib.sha256(response.body).digest() == hashlib.sha256(pattern(back)).digest(), f"another response body: {len(response.body)} bytes")


async def many_at_once(client):
    await asyncio.gather(*(transfer(client, 10_000, 10_000) for _ in range(AT_ONCE)))


async def thousand(client):
    """More requests than a connection may have streams at a time: the limit has to be raised (RFC 9000 §4.6)."""
    for _ in range(10):
        await asyncio.gather(*(get(client) for _ in range(100)))


async def trailers(client):
    stream = client.open("POST", "/body", [("x-wants-trailer", "yes"), ("trailer", "x-request-trailer")])
    client.send(stream, b"body")
    client.send_trailers(stream, [("x-request-trailer", "sent")])
    response = await client.response(stream)
    # Go's HTTP/2 server shows only trailers that a Trailer header has announced, which a proxy may drop (RFC 9110 §6.6.2).
    shows = response.headers["x-request-proto"] == "HTTP/1.1"
    expect(not shows or response.headers.get("x-request-trailer") == "sent", response.headers)
    expect(response.trailers.get("x-reply-trailer") == hashlib.sha256(b"body").hexdigest(), response.trailers)


async def streaming(client):
    """A piece of the response for each of the request, as a gRPC service with streams does."""
    stream = client.open("POST", "/echo", [("content-type", "application/grpc"), ("te", "trailers")])
    event = await client.next_event(stream)
    expect(dict(event.headers)[b":status"] == b"200", event)
    for number in range(20):
        piece = b"\0\0\0\0\5" + b"%05d" % number
        client.send(stream, piece)
        back = b""
        while len(back) < len(piece):
            back += (await client.next_event(stream)).data
        expect(back == piece, back)
    client.send(stream, b"", ends=True)
    fields = {}
    while True:
        event = await client.next_event(stream)
        if hasattr(event, "headers"):
            fields = dict(event.headers)
        if event.stream_ended:
            break
    expect(fields.get(b"grpc-status") == b"0", fields)


async def web_socket(client):
    expect(client.http.received_settings, "no SETTINGS")
    expect(client.http.received_settings.get(0x8) == 1, f"no extended CONNECT in {client.http.received_settings}")
    stream = client.open("CONNECT", "/websocket", [("sec-websocket-version", "13")], protocol="websocket")
    event = await client.next_event(stream)
    expect(dict(event.headers)[b":status"] == b"200", event)
    # Frames with a mask of zeros (RFC 6455 §5.2); the endpoint gives all bytes back.
    for text in (b"one", b"two" * 30):
        frame = bytes([0x81, 0x80 | len(text), 0, 0, 0, 0]) + text
        client.send(stream, frame)
        back = b""
        while len(back) < len(frame):
            back += (await client.next_event(stream)).data
        expect(back == frame, back)
    client.send(stream, b"", ends=True)
    while not (await client.next_event(stream)).stream_ended:
        pass
    await get(client)


async def dynamic_table(client):
    """The encoder puts headers that repeat into the table of the server, and refers to them."""
    headers = [(f"x-repeated-{number}", f"value-{number}-" + "v" * 40) for number in range(20)]
    for _ in range(30):
        response = await client.request("GET", "/", headers)
        expect(response.status == 200, response)
    sent, received = client.http._encoder_bytes_sent, client.http._decoder_bytes_received
    expect(sent > 200, f"{sent} bytes on the encoder's stream: the table was not used")
    expect(received > 20, f"{received} bytes on the decoder's stream: sections were not acknowledged")


async def key_update(client):
    for _ in range(3):
        await get(client)
        client.request_key_update()
        await get(client)
        await transfer(client, 100_000, 100_000)


async def migration(client):
    for _ in range(4):
        await client.move()
        await transfer(client, 300_000, 300_000)
    expect(len(client.sockets) == 5, client.sockets)


async def migration_in_flight(client):
    """The client moves while a request body is on its way and its response, too."""
    body = os.urandom(2 * MEBIBYTE)
    stream = client.open("POST", "/echo", [("content-length", str(len(body)))])
    back, moved = bytearray(), False
    client.send(stream, body, ends=True)
    while True:
        event = await client.next_event(stream)
        back += getattr(event, "data", b"")
        if len(back) > MEBIBYTE // 2 and not moved:
            moved = True
            await client.move()
        if event.stream_ended:
            break
    expect(moved and hashlib.sha256(back).digest() == hashlib.sha256(body).digest(), f"{len(back)} bytes came back")


async def connection_ids(client):
    """The client changes to other connection ids of the server on the same path (RFC 9000 §5.1.2)."""
    seen = set()
    for _ in range(8):
        await get(client)
        seen.add(client._quic._peer_cid.cid)
        client.change_connection_id()
    await get(client)
    expect(len(seen) > 4, f"{len(seen)} connection ids")


async def on(serving, host, check):
    async with http(serving, host) as client:
        # SETTINGS come with the server's first packets that are protected with the keys of the handshake.
        await get(client)
        await check(client)


async def version_negotiation(serving):
    versions = [RESERVED_VERSION, QuicProtocolVersion.VERSION_1]
    async with http(serving, supported_versions=versions, original_version=RESERVED_VERSION) as client:
        await get(client)
        expect(client._quic._version_negotiated_incompatible, "no Version Negotiation packet")
        expect(client._quic._version == QuicProtocolVersion.VERSION_1, f"{client._quic._version:#x}")


async def version_2_first(serving):
    versions = [QuicProtocolVersion.VERSION_2, QuicProtocolVersion.VERSION_1]
    async with http(serving, supported_versions=versions, original_version=QuicProtocolVersion.VERSION_2) as client:
        await get(client)


async def large_hello(serving):
    """A ClientHello in more than one packet, as with keys of post-quantum groups."""
    async with http(serving, quantum_readiness_test=True) as client:
        await get(client)


async def resumption(serving):
    tickets = []
    async with http(serving, ticket_handler=tickets.append) as client:
        await get(client)
        await asyncio.wait_for(wait_until(lambda: tickets), REQUEST_TIMEOUT)
    async with http(serving, session_ticket=tickets[0]) as client:
        await get(client)
        expect(client._quic.tls.session_resumed, "it was not resumed")


async def early_data(serving):
    """A client that sends its request with a ticket, before the handshake: Fairway gives no tickets for that, so it comes after it."""
    tickets = []
    async with http(serving, ticket_handler=tickets.append) as client:
        await get(client)
        await asyncio.wait_for(wait_until(lambda: tickets), REQUEST_TIMEOUT)
    ticket = tickets[0]
    expect(ticket.max_early_data_size is None, f"the ticket allows early data: {ticket.max_early_data_size}")
    # The client pretends that it does: the server has to refuse, and to serve the request after the handshake.
    ticket.max_early_data_size = 0xFFFFFFFF
    async with http(serving, session_ticket=ticket, waits=False) as client:
        stream = client.open("GET", "/", ends=True)
        response = await client.response(stream)
        expect(response.status == 200, response)
        expect(not client._quic.tls.early_data_accepted, "early data was accepted")


async def wait_until(holds):
    while not holds():
        await asyncio.sleep(0.005)


# Name, rule, function; on each host.
ON_HOSTS = [
    ("GET", "RFC 9114 §4", get),
    ("name that is not served", "RFC 9110 §15.5", not_found),
    ("POST of 8 MiB, and 4 MiB back", "RFC 9114 §4.1", transfer),
    (f"{AT_ONCE} requests at once", "RFC 9114 §4.1", many_at_once),
    ("1000 requests, 100 at once", "RFC 9000 §4.6", thousand),
    ("trailers both ways", "RFC 9114 §4.1", trailers),
    ("streaming both ways with trailers, as gRPC does", "RFC 9114 §4.1", streaming),
    ("client moves while a body is on its way", "RFC 9000 §9", migration_in_flight),
]
ON_PLAIN = [
    ("WebSocket by extended CONNECT", "RFC 9220", web_socket),
    ("dynamic table of QPACK", "RFC 9204 §3.2", dynamic_table),
    ("update of keys, 3 times", "RFC 9001 §6", key_update),
    ("client moves to another socket, 4 times", "RFC 9000 §9", migration),
    ("other connection ids, 8 times", "RFC 9000 §5.1.2", connection_ids),
]
ALONE = [
    ("unknown version first", "RFC 9000 §6", version_negotiation),
    ("version 2 first", "RFC 9369 §4", version_2_first),
    ("ClientHello in several packets", "RFC 9001 §4.3", large_hello),
    ("resumption", "RFC 8446 §2.2", resumption),
    ("early data", "RFC 9001 §4.6", early_data),
]


def cases(serving):
    for host, protocol in HOSTS.items():
        for name, rule, check in ON_HOSTS:
            yield f"{name}; endpoint over {protocol}", rule, lambda host=host, check=check: on(serving, host, check)
    for name, rule, check in ON_PLAIN:
        yield name, rule, lambda check=check: on(serving, "plain.test", check)
    for name, rule, check in ALONE:
        yield name, rule, lambda check=check: check(serving)


async def interop(serving, results, match):
    for name, rule, check in cases(serving):
        if match not in name:
            continue
        try:
            await asyncio.wait_for(check(), 3 * REQUEST_TIMEOUT)
            got = "right"
        except (AssertionError, ConnectionError, TimeoutError, KeyError) as error:
            got = f"{type(error).__name__}: {error}"
        results.add(Result("aioquic: interop", name, rule, "right", got, got == "right"))
