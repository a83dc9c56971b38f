"""Runs the cases of hostile_cases: each on a connection of its own, after which another connection must be served."""

import asyncio
import contextlib

from aioquic.buffer import Buffer, encode_uint_var as varint
from aioquic.tls import AlertDescription, Epoch

from client import http
from connection import HANDSHAKE_TIMEOUT
from hostile_cases import CASES, GOES_ON, KNOWN, PING, frame
from report import Result

SILENCE = 3
MANY_INITIALS = 500
OTHER_TOKENS = f"{MANY_INITIALS} Initials with another token"
FEW_LINES = "at most 10 lines in the log"
# RFC 9000 §20.1, RFC 9001 §4.8.
CODES = {
    0x0: "NO_ERROR",
    0x1: "INTERNAL_ERROR",
    0x2: "CONNECTION_REFUSED",
    0x3: "FLOW_CONTROL_ERROR",
    0x4: "STREAM_LIMIT_ERROR",
    0x5: "STREAM_STATE_ERROR",
    0x6: "FINAL_SIZE_ERROR",
    0x7: "FRAME_ENCODING_ERROR",
    0x8: "TRANSPORT_PARAMETER_ERROR",
    0x9: "CONNECTION_ID_LIMIT_ERROR",
    0xA: "PROTOCOL_VIOLATION",
    0xB: "INVALID_TOKEN",
    0xC: "APPLICATION_ERROR",
    0xD: "CRYPTO_BUFFER_EXCEEDED",
    0xE: "KEY_UPDATE_ERROR",
    0xF: "AEAD_LIMIT_REACHED",
    0x10: "NO_VIABLE_PATH",
}


def code_name(close):
    if close.is_own:
        return f"aioquic closes with {close.code:#x}: {close.reason}"
    if not close.is_transport:
        return f"application's code {close.code:#x}"
    if 0x100 <= close.code <= 0x1FF:
        with contextlib.suppress(ValueError):
            return f"CRYPTO_ERROR {AlertDescription(close.code - 0x100).name}"
    return CODES.get(close.code, f"code {close.code:#x}")


def edited(edit):
    """What makes other transport parameters of those that aioquic would send."""

    def apply(encoded):
        buffer, parameters = Buffer(data=encoded), []
        while not buffer.eof():
            identifier = buffer.pull_uint_var()
            parameters.append((identifier, buffer.pull_bytes(buffer.pull_uint_var())))
        made = edit(parameters)
        if isinstance(made, bytes):
            return made
        return b"".join(varint(identifier) + varint(len(value)) + value for identifier, value in made)

    return apply


class Injection:
    """Sends the packets of a case in place of everything that aioquic would send from then on."""

    def __init__(self, case):
        self.case = case
        self.is_sent = False

    def __call__(self, client):
        if self.is_sent:
            return True
        if not client.can_send(self.case.when or self.case.level):
            return False
        self.is_sent = True
        send(self.case, client)
        return True


def send(case, client):
    for payload in case.packets(client):
        client.send_packet(case.level, payload, **case.options)


async def observe(client):
    """How the connection ends, or that it goes on."""
    try:
        return code_name(await asyncio.wait_for(asyncio.shield(client.closed), SILENCE))
    except TimeoutError:
        return GOES_ON if await client.is_served() else "silence"


async def ends(client, wants):
    """As observe, but does not wait for an end that is not wanted."""
    if wants != (GOES_ON,):
        return await observe(client)
    served = asyncio.ensure_future(client.is_served())
    await asyncio.wait([served, client.closed], return_when=asyncio.FIRST_COMPLETED)
    if client.closed.done():
        served.cancel()
        return code_name(client.closed.result())
    return GOES_ON if served.result() else "silence"


async def one(serving, case):
    if case.parameters or case.tls:
        options = {"edit_parameters": edited(case.parameters)} if case.parameters else {"edit_tls": case.tls}
        async with http(serving, waits=False, **options) as client:
            if GOES_ON in case.wants:
                await asyncio.wait_for(client.wait_connected(), HANDSHAKE_TIMEOUT)
            return await ends(client, case.wants)
    if case.level != Epoch.ONE_RTT:
        async with http(serving, waits=False, before_transmit=Injection(case)) as client:
            try:
                return code_name(await asyncio.wait_for(asyncio.shield(client.closed), SILENCE))
            except TimeoutError:
                return "silence"
    async with http(serving) as client:
        await client.wait_confirmed()
        if not await client.is_served():
            return "not served before"
        send(case, client)
        return await ends(client, case.wants)


async def other_tokens(serving):
    """Initial packets that begin no connection, and whose senders need not show their addresses, may not fill the log."""
    with open(serving.log, encoding="utf-8") as log:
        log.seek(0, 2)
        async with http(serving, waits=False) as client:
            client.before_transmit = lambda _: True
            for _ in range(MANY_INITIALS):
                client.send_packet(Epoch.INITIAL, frame(PING), token=b"another")
                await asyncio.sleep(0)
            client.before_transmit = None
            client.transmit()
            if not await client.is_served():
                return "silence"
        lines = sum("WARN" in line or "ERROR" in line for line in log)
    return FEW_LINES if lines <= 10 else f"{lines} lines"


async def hostile(serving, results, match):
    if match in OTHER_TOKENS:
        got = await other_tokens(serving)
        results.add(Result("aioquic: hostile", OTHER_TOKENS, "bounded log", FEW_LINES, got, got == FEW_LINES))
    for case in CASES:
        if match not in case.name:
            continue
        try:
            got = await one(serving, case)
        except (ConnectionError, TimeoutError) as error:
            got = f"{type(error).__name__}: {error}"
        problem = ""
        with contextlib.suppress(ConnectionError, TimeoutError):
            async with http(serving) as witness:
                if not await witness.is_served():
                    problem = "; another connection is not served afterwards"
        known, why = KNOWN.get(case.name, ("", ""))
        wanted = (known,) if known else case.wants
        results.add(Result("aioquic: hostile", case.name, case.rule, " or ".join(case.wants), got + problem, got in wanted and not problem, why))
