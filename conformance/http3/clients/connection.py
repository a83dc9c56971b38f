"""A connection of aioquic's client, on which packets with any bytes can be sent too."""

import asyncio
import contextlib
import socket
import time
from dataclasses import dataclass

from aioquic.asyncio.protocol import QuicConnectionProtocol
from aioquic.buffer import encode_uint_var as varint
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.connection import QuicConnection, QuicConnectionState
from aioquic.tls import Epoch

HANDSHAKE_TIMEOUT = 10
# RFC 9000 §17.2: the types of long headers in version 1.
LONG_TYPES = {Epoch.INITIAL: 0, Epoch.ZERO_RTT: 1, Epoch.HANDSHAKE: 2}
INITIAL_DATAGRAM = 1200
TAG = 16


@dataclass(frozen=True)
class Close:
    """How a connection ended: with a code of the transport or, without a frame type, of the application."""

    code: int
    is_transport: bool
    reason: str
    # Whether aioquic ended it, which finds fault with the server.
    is_own: bool


class Quic(QuicConnection):
    """aioquic's connection whose transport parameters and TLS can be edited before its ClientHello."""

    def __init__(self, *, edit_parameters=None, edit_tls=None, **arguments):
        self.edit_parameters = edit_parameters
        self.edit_tls = edit_tls
        self.hello = b""
        super().__init__(**arguments)

    def _initialize(self, peer_cid):
        super()._initialize(peer_cid)
        if self.edit_tls:
            self.edit_tls(self.tls)

    def _push_crypto_data(self):
        self.hello = self.hello or bytes(self._crypto_buffers[Epoch.INITIAL].data)
        super()._push_crypto_data()

    def _serialize_transport_parameters(self):
        encoded = super()._serialize_transport_parameters()
        return self.edit_parameters(encoded) if self.edit_parameters else encoded


class Connection(QuicConnectionProtocol):
    """A protocol that knows at once how the connection ends. aioquic's own event comes after the draining period."""

    # Called in place of sending, as long as it returns true.
    before_transmit = None

    def __init__(self, quic, stream_handler=None):
        super().__init__(quic, stream_handler)
        self.closed = asyncio.get_running_loop().create_future()
        self.datagrams = 0
        self.address = None
        # The others of a client that moved.
        self.sockets = []

    def connection_made(self, transport):
        super().connection_made(transport)
        self.sockets.append(transport)

    def datagram_received(self, data, addr):
        self.datagrams += 1
        had_closed = self._quic._close_event is not None
        super().datagram_received(data, addr)
        event = self._quic._close_event
        if event is not None and not had_closed and not self.closed.done():
            is_own = self._quic._state != QuicConnectionState.DRAINING
            self.closed.set_result(Close(event.error_code, event.frame_type is not None, event.reason_phrase, is_own))

    def error_received(self, exc):
        """A closed port of a server that has ended; timeouts say so."""

    def transmit(self):
        if self.before_transmit is not None and self.before_transmit(self):
            return
        super().transmit()

    def can_send(self, epoch):
        crypto = self._quic._cryptos.get(epoch)
        return crypto is not None and crypto.send.is_valid()

    def packet(self, epoch, payload, reserved_bits=0, token=b"", number=None):
        """A protected packet of the connection with these bytes as its frames (RFC 9000 §17)."""
        quic = self._quic
        crypto = quic._cryptos[epoch]
        if number is None:
            number = quic._packet_number
            quic._packet_number += 1
        destination = quic._peer_cid.cid
        if epoch == Epoch.ONE_RTT:
            first = 0x40 | crypto.key_phase << 2 | 3 | reserved_bits << 3
            header = bytes([first]) + destination
        else:
            source = quic.host_cid
            first = 0xC0 | LONG_TYPES[epoch] << 4 | 3 | reserved_bits << 2
            header = bytes([first]) + quic._version.to_bytes(4, "big")
            header += bytes([len(destination)]) + destination + bytes([len(source)]) + source
            if epoch == Epoch.INITIAL:
                header += varint(len(token)) + token
            header += (4 + len(payload) + TAG | 0x4000).to_bytes(2, "big")
        header += (number & 0xFFFFFFFF).to_bytes(4, "big")
        return crypto.encrypt_packet(header, payload, number)

    def send_packet(self, epoch, payload, **options):
        if epoch == Epoch.INITIAL and payload:
            # RFC 9000 §14.1; the header comes on top.
            payload += bytes(max(0, INITIAL_DATAGRAM - len(payload)))
        self.send_datagram(self.packet(epoch, payload, **options))

    def send_datagram(self, datagram):
        self._transport.sendto(datagram, self.address)

    async def move(self):
        """Goes on from another socket, with another connection id where there is one (RFC 9000 §9)."""
        await asyncio.get_running_loop().create_datagram_endpoint(lambda: self, sock=local_socket())
        self._quic.change_connection_id()
        self.transmit()

    async def wait_confirmed(self):
        """Waits for HANDSHAKE_DONE: only then are no Handshake packets sent any more."""
        end = time.monotonic() + HANDSHAKE_TIMEOUT
        while not self._quic._handshake_confirmed:
            if time.monotonic() > end or self.closed.done():
                raise ConnectionError("the handshake is not confirmed")
            await asyncio.sleep(0.005)


def local_socket():
    opened = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    opened.setblocking(False)
    opened.bind(("127.0.0.1", 0))
    # Bodies of some MiB come faster than Python takes them.
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
    return opened


def configuration(serving, name, **options):
    made = QuicConfiguration(is_client=True, alpn_protocols=["h3"], server_name=name, idle_timeout=30.0, **options)
    made.load_verify_locations(cafile=serving.authority)
    return made


@contextlib.asynccontextmanager
async def connect(
    serving,
    name,
    protocol=Connection,
    waits=True,
    before_transmit=None,
    edit_parameters=None,
    edit_tls=None,
    ticket_handler=None,
    **options,
):
    """A connection to Fairway under a host's name."""
    quic = Quic(
        configuration=configuration(serving, name, **options),
        edit_parameters=edit_parameters,
        edit_tls=edit_tls,
        session_ticket_handler=ticket_handler,
    )
    loop = asyncio.get_running_loop()
    _, opened = await loop.create_datagram_endpoint(lambda: protocol(quic), sock=local_socket())
    opened.address = ("127.0.0.1", serving.port)
    opened.before_transmit = before_transmit
    try:
        opened.connect(opened.address)
        if waits:
            await asyncio.wait_for(opened.wait_connected(), HANDSHAKE_TIMEOUT)
        yield opened
    finally:
        opened.before_transmit = None
        opened.close()
        if opened._timer is not None:
            opened._timer.cancel()
        for each in opened.sockets:
            each.close()
