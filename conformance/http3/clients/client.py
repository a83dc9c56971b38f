"""HTTP/3 of aioquic on such a connection: requests, and streams that stay open."""

import asyncio
import contextlib
from dataclasses import dataclass, field

from aioquic.h3.connection import H3Connection
from aioquic.h3.events import DataReceived, HeadersReceived
from aioquic.quic.events import ConnectionTerminated, StreamReset

from connection import Connection, connect

REQUEST_TIMEOUT = 20


@dataclass
class Response:
    status: int = 0
    headers: dict = field(default_factory=dict)
    body: bytes = b""
    trailers: dict = field(default_factory=dict)


class Client(Connection):
    """A connection with HTTP/3 on it."""

    def __init__(self, quic, stream_handler=None):
        super().__init__(quic, stream_handler)
        self.http = None
        self.exchanges = {}

    def begin(self):
        """Opens the control stream and those of QPACK."""
        if self.http is None:
            self.http = H3Connection(self._quic)

    def quic_event_received(self, event):
        self.begin()
        if isinstance(event, StreamReset) and event.stream_id in self.exchanges:
            self.exchanges[event.stream_id].put_nowait(ConnectionError(f"reset with {event.error_code:#x}"))
        elif isinstance(event, ConnectionTerminated):
            for each in self.exchanges.values():
                each.put_nowait(ConnectionError(f"the connection ended with {event.error_code:#x}: {event.reason_phrase}"))
        for each in self.http.handle_event(event):
            if isinstance(each, (DataReceived, HeadersReceived)) and each.stream_id in self.exchanges:
                self.exchanges[each.stream_id].put_nowait(each)

    def open(self, method, path, headers=(), ends=False, authority=None, protocol=None):
        """Sends the head of a request, and returns its stream."""
        self.begin()
        head = [(":method", method), (":scheme", "https"), (":authority", authority or self._quic.configuration.server_name), (":path", path)]
        if protocol:
            head.append((":protocol", protocol))
        stream = self._quic.get_next_available_stream_id()
        self.exchanges[stream] = asyncio.Queue()
        self.http.send_headers(stream, [(name.encode(), value.encode()) for name, value in [*head, *headers]], end_stream=ends)
        self.transmit()
        return stream

    def send(self, stream, data, ends=False):
        self.http.send_data(stream, data, end_stream=ends)
        self.transmit()

    def send_trailers(self, stream, trailers):
        self.http.send_headers(stream, [(name.encode(), value.encode()) for name, value in trailers], end_stream=True)
        self.transmit()

    async def next_event(self, stream):
        event = await asyncio.wait_for(self.exchanges[stream].get(), REQUEST_TIMEOUT)
        if isinstance(event, Exception):
            raise event
        return event

    async def response(self, stream):
        """The whole response on a stream."""
        response, has_head = Response(), False
        body = []
        while True:
            event = await self.next_event(stream)
            if isinstance(event, DataReceived):
                body.append(event.data)
            else:
                fields = {name.decode(): value.decode() for name, value in event.headers}
                if has_head:
                    response.trailers = fields
                else:
                    response.status, response.headers, has_head = int(fields.pop(":status")), fields, True
            if event.stream_ended:
                response.body = b"".join(body)
                del self.exchanges[stream]
                return response

    async def request(self, method, path, headers=(), body=None):
        stream = self.open(method, path, headers, ends=body is None)
        if body is not None:
            self.send(stream, body, ends=True)
        return await self.response(stream)

    async def is_served(self):
        with contextlib.suppress(ConnectionError, TimeoutError):
            response = await self.request("GET", "/")
            return response.status == 200 and response.body == b"here"
        return False


def http(serving, name="plain.test", **options):
    """A connection with HTTP/3 to Fairway under a host's name."""
    return connect(serving, name, protocol=Client, **options)
