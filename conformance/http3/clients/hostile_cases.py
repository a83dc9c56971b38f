"""What a client of QUIC may not do, and what a server has to do then: a row for each.

Frames are written by hand (RFC 9000 §19). A row names the section of the RFC and the outcomes that it allows; "goes on" is a connection on
which another request is served. KNOWN has what Fairway does differently.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from aioquic.buffer import encode_uint_var as v
from aioquic.tls import Epoch

GOES_ON = "goes on"
ENCODING, VIOLATION = "FRAME_ENCODING_ERROR", "PROTOCOL_VIOLATION"
STATE, LIMIT = "STREAM_STATE_ERROR", "STREAM_LIMIT_ERROR"
FLOW, FINAL = "FLOW_CONTROL_ERROR", "FINAL_SIZE_ERROR"
PARAMETER, BUFFER = "TRANSPORT_PARAMETER_ERROR", "CRYPTO_BUFFER_EXCEEDED"
IDS = "CONNECTION_ID_LIMIT_ERROR"
UNEXPECTED_MESSAGE = "CRYPTO_ERROR unexpected_message"

MAX_VARINT = (1 << 62) - 1
# RFC 9000 §4.6: the most streams of a kind.
MAX_STREAMS = 1 << 60
FAR = 1 << 40

PING, ACK, ACK_ECN, RESET_STREAM, STOP_SENDING, CRYPTO, NEW_TOKEN, STREAM = 0x1, 0x2, 0x3, 0x4, 0x5, 0x6, 0x7, 0x8
MAX_DATA, MAX_STREAM_DATA, MAX_STREAMS_BIDI, MAX_STREAMS_UNI, DATA_BLOCKED, STREAM_DATA_BLOCKED = 0x10, 0x11, 0x12, 0x13, 0x14, 0x15
STREAMS_BLOCKED_BIDI, STREAMS_BLOCKED_UNI, NEW_CONNECTION_ID, RETIRE_CONNECTION_ID = 0x16, 0x17, 0x18, 0x19
PATH_CHALLENGE, PATH_RESPONSE, CLOSE, APPLICATION_CLOSE, HANDSHAKE_DONE, DATAGRAM = 0x1A, 0x1B, 0x1C, 0x1D, 0x1E, 0x30

# Streams that nothing else uses: the client's, and the server's that it has not opened.
OURS, OURS_UNI, THEIRS, THEIRS_UNI = 40, 42, 1, 403
# The control stream of the server, and that of the client.
SERVER_CONTROL, CLIENT_CONTROL = 3, 2


def frame(kind, *values):
    return v(kind) + b"".join(v(value) if isinstance(value, int) else value for value in values)


def stream(identifier, offset, data, ends=False):
    return frame(STREAM | 4 | 2 | ends, identifier, offset, len(data), data)


def crypto(offset, data):
    return frame(CRYPTO, offset, len(data), data)


def message(kind, body):
    """A handshake message of TLS (RFC 8446 §4)."""
    return bytes([kind]) + len(body).to_bytes(3, "big") + body


def new_connection_id(sequence, retire=0, identifier=b"12345678", token=bytes(range(16))):
    return frame(NEW_CONNECTION_ID, sequence, retire, bytes([len(identifier)]), identifier, token)


@dataclass
class Case:
    name: str
    rule: str
    wants: tuple
    # The payloads of the packets to send, or what makes them for a client.
    sends: list | Callable = field(default_factory=list)
    level: Epoch = Epoch.ONE_RTT
    # Before the handshake's end: the level whose keys must be there.
    when: Epoch | None = None
    options: dict = field(default_factory=dict)
    # Edits the list of the client's transport parameters.
    parameters: Callable | None = None
    # Edits the client's TLS before its ClientHello.
    tls: Callable | None = None

    def packets(self, client):
        return self.sends(client) if callable(self.sends) else self.sends


def case(name, section, wants, *sends, **options):
    rule = section if section.startswith("RFC") else f"RFC 9000 {section}"
    wants = (wants,) if isinstance(wants, str) else wants
    packets = sends[0] if len(sends) == 1 and callable(sends[0]) else list(sends)
    return Case(name, rule, wants, packets, **options)


def over_limit(kind, *values, uni=False):
    """A frame for a stream of the client over the server's limit, which may have been raised and not been sent."""

    def packets(client):
        most = client._quic._remote_max_streams_uni if uni else client._quic._remote_max_streams_bidi
        return [frame(kind, (most + 1000) * 4 + (2 if uni else 0), *values)]

    return packets


def over_window(client):
    return [stream(OURS, client._quic._remote_max_stream_data_bidi_remote - 4, b"12345")]


def over_connection_window(client):
    window = client._quic._remote_max_stream_data_bidi_remote
    count = client._quic._remote_max_data // window + 1
    return [stream(OURS + 4 * number, window - 1, b"1") for number in range(count)]


def retire_current(client):
    # aioquic does not know that the server may issue one more.
    client._quic._local_active_connection_id_limit += 1
    yield frame(RETIRE_CONNECTION_ID, client._quic._peer_cid.sequence_number)
    client._quic._consume_peer_cid()


def next_sequence(client):
    return [frame(RETIRE_CONNECTION_ID, max(client._quic._peer_cid_sequence_numbers) + 1)]


ACKS = [
    case("ACK of a packet that was not sent", "§13.1", VIOLATION, frame(ACK, 1_000_000, 0, 0, 0)),
    case("ACK of packet 2^62-1", "§13.1", VIOLATION, frame(ACK, MAX_VARINT, 0, 0, 0)),
    case("ACK whose first range goes below 0", "§19.3.1", ENCODING, frame(ACK, 2, 0, 0, 3)),
    case("ACK whose second range goes below 0", "§19.3.1", ENCODING, frame(ACK, 2, 0, 1, 0, 0, 1)),
    case("ACK whose gap goes below 0", "§19.3.1", ENCODING, frame(ACK, 2, 0, 1, 0, 2, 0)),
    case("ACK with 2^30 ranges that are not there", "§12.4", ENCODING, frame(ACK, 2, 0, 1 << 30, 0)),
    case("ACK without counts of ECN", "§12.4", ENCODING, frame(ACK_ECN, 0, 0, 0, 0)),
]

# Two frames are in one packet where the first would be an error of HTTP/3 by itself.
STREAMS = [
    case("STREAM on the server's stream, which it did not open", "§19.8", STATE, stream(THEIRS, 0, b"1")),
    case("STREAM on the server's unidirectional stream", "§19.8", STATE, stream(SERVER_CONTROL, 0, b"1")),
    case("STREAM over the limit", "§4.6", LIMIT, over_limit(STREAM, b"1")),
    case("STREAM over the limit, unidirectional", "§4.6", LIMIT, over_limit(STREAM, b"1", uni=True)),
    case("STREAM on the greatest stream", "§4.6", LIMIT, stream(MAX_VARINT - 3, 0, b"1")),
    case("STREAM over its window", "§4.1", FLOW, over_window),
    case("STREAM over the connection's window", "§4.1", FLOW, over_connection_window),
    case("STREAM that goes beyond 2^62-1", "§19.8", (ENCODING, FLOW), stream(OURS, MAX_VARINT - 1, b"12")),
    case("STREAM longer than its packet", "§12.4", ENCODING, frame(STREAM | 2, OURS, 100, b"1")),
    case("STREAM after the end", "§4.5", FINAL, stream(OURS, 0, b"12", ends=True) + stream(OURS, 2, b"3")),
    case("STREAM that ends elsewhere, later", "§4.5", FINAL, stream(OURS, 0, b"12", ends=True) + stream(OURS, 0, b"123", ends=True)),
    case("STREAM that ends elsewhere, earlier", "§4.5", FINAL, stream(OURS, 0, b"12", ends=True) + stream(OURS, 0, b"1", ends=True)),
    case("STREAM that ends before what came", "§4.5", FINAL, stream(OURS, 0, b"123") + stream(OURS, 0, b"1", ends=True)),
    case("RESET_STREAM of the server's unidirectional stream", "§19.4", STATE, frame(RESET_STREAM, SERVER_CONTROL, 0, 0)),
    case("RESET_STREAM over the limit", "§4.6", LIMIT, over_limit(RESET_STREAM, 0, 0)),
    case("RESET_STREAM with a size over the window", "§4.5", FLOW, frame(RESET_STREAM, OURS, 0, FAR)),
    case("RESET_STREAM with a size below what came", "§4.5", FINAL, stream(OURS, 0, b"123") + frame(RESET_STREAM, OURS, 0, 2)),
    case("RESET_STREAM with another size than the end", "§4.5", FINAL, stream(OURS, 0, b"12", ends=True) + frame(RESET_STREAM, OURS, 0, 3)),
    case("RESET_STREAM without a size", "§12.4", ENCODING, frame(RESET_STREAM, OURS, 0)),
    case("STOP_SENDING of the client's unidirectional stream", "§19.5", STATE, frame(STOP_SENDING, CLIENT_CONTROL, 0)),
    case("STOP_SENDING of the server's stream, which it did not open", "§19.5", STATE, frame(STOP_SENDING, THEIRS, 0)),
    case("STOP_SENDING over the limit", "§4.6", LIMIT, over_limit(STOP_SENDING, 0)),
    case("MAX_STREAM_DATA of the client's unidirectional stream", "§19.10", STATE, frame(MAX_STREAM_DATA, CLIENT_CONTROL, 9)),
    case("MAX_STREAM_DATA of the server's stream, which it did not open", "§19.10", STATE, frame(MAX_STREAM_DATA, THEIRS, 9)),
    case("MAX_STREAM_DATA of the server's, unidirectional", "§19.10", STATE, frame(MAX_STREAM_DATA, THEIRS_UNI, 9)),
    case("MAX_STREAM_DATA over the limit", "§4.6", LIMIT, over_limit(MAX_STREAM_DATA, 9)),
    case("STREAM_DATA_BLOCKED of the server's unidirectional stream", "§19.13", STATE, frame(STREAM_DATA_BLOCKED, SERVER_CONTROL, 9)),
    case("STREAM_DATA_BLOCKED over the limit", "§4.6", LIMIT, over_limit(STREAM_DATA_BLOCKED, 9)),
]

LIMITS = [
    case("MAX_DATA that shrinks", "§4.1", GOES_ON, frame(MAX_DATA, 1)),
    case("DATA_BLOCKED at 0", "§19.12", GOES_ON, frame(DATA_BLOCKED, 0)),
    case("MAX_STREAMS of 2^60", "§19.11", GOES_ON, frame(MAX_STREAMS_BIDI, MAX_STREAMS)),
    case("MAX_STREAMS above 2^60", "§19.11", ENCODING, frame(MAX_STREAMS_BIDI, MAX_STREAMS + 1)),
    case("MAX_STREAMS above 2^60, unidirectional", "§19.11", ENCODING, frame(MAX_STREAMS_UNI, MAX_STREAMS + 1)),
    case("STREAMS_BLOCKED above 2^60", "§19.14", (LIMIT, ENCODING), frame(STREAMS_BLOCKED_BIDI, MAX_STREAMS + 1)),
    case("STREAMS_BLOCKED above 2^60, unidirectional", "§19.14", (LIMIT, ENCODING), frame(STREAMS_BLOCKED_UNI, MAX_STREAMS + 1)),
]

CONNECTION_IDS = [
    case("NEW_CONNECTION_ID of no bytes", "§19.15", ENCODING, new_connection_id(9, identifier=b"")),
    case("NEW_CONNECTION_ID of 21 bytes", "§19.15", ENCODING, new_connection_id(9, identifier=b"x" * 21)),
    case("NEW_CONNECTION_ID that retires later ones", "§19.15", ENCODING, new_connection_id(9, retire=10)),
    case("NEW_CONNECTION_ID with half a token", "§12.4", ENCODING, new_connection_id(9, token=bytes(8))),
    case("NEW_CONNECTION_ID over the limit", "§5.1.1", IDS, new_connection_id(100)),
    case("NEW_CONNECTION_ID of a sequence number that has another", "§19.15", (VIOLATION, GOES_ON), new_connection_id(2)),
    case("RETIRE_CONNECTION_ID of number 1000", "§19.16", VIOLATION, frame(RETIRE_CONNECTION_ID, 1000)),
    case("RETIRE_CONNECTION_ID of the next number", "§19.16", VIOLATION, next_sequence),
    case("RETIRE_CONNECTION_ID of the one in its packet", "§19.16", (VIOLATION, GOES_ON),
         retire_current),
]

FRAMES = [
    case("no frames", "§12.4", VIOLATION, b""),
    case("unknown frame 0x21", "§12.4", ENCODING, frame(0x21)),
    case("unknown frame 0x3fffffff", "§12.4", ENCODING, frame(0x3FFFFFFF)),
    case("half a frame type", "§12.4", ENCODING, b"\x40"),
    case("PING in two bytes", "§12.4", (VIOLATION, ENCODING, GOES_ON), b"\x40\x01"),
    case("reserved bits", "§17.3.1", VIOLATION, frame(PING), options={"reserved_bits": 3}),
    case("NEW_TOKEN", "§19.7", VIOLATION, frame(NEW_TOKEN, 3, b"abc")),
    case("HANDSHAKE_DONE", "§19.20", VIOLATION, frame(HANDSHAKE_DONE)),
    case("PATH_RESPONSE to nothing", "§19.18", (VIOLATION, GOES_ON), frame(PATH_RESPONSE, b"12345678")),
    case("PATH_CHALLENGE of 7 bytes", "§12.4", ENCODING, frame(PATH_CHALLENGE, b"1234567")),
    case("CONNECTION_CLOSE with half a reason", "§12.4", ENCODING, frame(CLOSE, 0, 0, 9, b"1")),
    case("DATAGRAM", "RFC 9221 §3", VIOLATION, frame(DATAGRAM, b"1")),
]

CRYPTOS = [
    case("CRYPTO at 2^40", "§7.5", BUFFER, crypto(FAR, b"1")),
    case("CRYPTO that goes beyond 2^62-1", "§19.6", (ENCODING, BUFFER), crypto(MAX_VARINT - 1, b"12")),
    case("CRYPTO longer than its packet", "§12.4", ENCODING, frame(CRYPTO, 0, 100, b"1")),
    case("CRYPTO in bytes with gaps", "§7.5", (BUFFER, GOES_ON),
         *[b"".join(crypto(1 + 2 * number, b"1") for number in range(at, at + 200)) for at in range(0, 4000, 200)]),
    case("ClientHello after the handshake", "RFC 8446 §4.1.2", UNEXPECTED_MESSAGE, lambda client: [crypto(0, client._quic.hello)]),
    case("KeyUpdate of TLS", "RFC 9001 §6", UNEXPECTED_MESSAGE, crypto(0, message(24, b"\0"))),
    case("EndOfEarlyData", "RFC 9001 §8.3", UNEXPECTED_MESSAGE, crypto(0, message(5, b""))),
    case("NewSessionTicket of a client", "RFC 8446 §4.6.1", UNEXPECTED_MESSAGE, crypto(0, message(4, bytes(8) + b"\1\0" + b"\0\1t" + b"\0\0"))),
]


# What packets of a handshake may not have (RFC 9000 §12.5, table 3).
FORBIDDEN = {
    "STREAM": stream(0, 0, b"1"),
    "RESET_STREAM": frame(RESET_STREAM, 0, 0, 0),
    "STOP_SENDING": frame(STOP_SENDING, 0, 0),
    "NEW_TOKEN": frame(NEW_TOKEN, 3, b"abc"),
    "MAX_DATA": frame(MAX_DATA, 100),
    "MAX_STREAMS": frame(MAX_STREAMS_BIDI, 100),
    "NEW_CONNECTION_ID": new_connection_id(1),
    "RETIRE_CONNECTION_ID": frame(RETIRE_CONNECTION_ID, 0),
    "PATH_CHALLENGE": frame(PATH_CHALLENGE, b"12345678"),
    "HANDSHAKE_DONE": frame(HANDSHAKE_DONE),
    "DATAGRAM": frame(DATAGRAM | 1, 1, b"1"),
}


def early_cases():
    for level, name in ((Epoch.INITIAL, "Initial"), (Epoch.HANDSHAKE, "Handshake")):
        for kind, written in FORBIDDEN.items():
            yield case(f"{kind} in {name}", "§12.4", VIOLATION, written, level=level)
        yield case(f"CONNECTION_CLOSE of the application in {name}", "§12.5", VIOLATION, frame(APPLICATION_CLOSE, 0, 0), level=level)
        yield case(f"unknown frame in {name}", "§12.4", (ENCODING, VIOLATION), frame(0x21), level=level)
        yield case(f"reserved bits in {name}", "§17.2", VIOLATION, frame(PING), level=level, options={"reserved_bits": 3})
        yield case(f"ACK of a packet that was not sent in {name}", "§13.1", VIOLATION, frame(ACK, 1_000_000, 0, 0, 0), level=level)
        yield case(f"CRYPTO at 2^40 in {name}", "§7.5", BUFFER, crypto(FAR, b"1"), level=level)
        yield case(f"CRYPTO that goes beyond 2^62-1 in {name}", "§19.6", (ENCODING, BUFFER), crypto(MAX_VARINT - 1, b"12"), level=level)
        yield case(f"KeyUpdate of TLS in {name}", "RFC 8446 §4", UNEXPECTED_MESSAGE, crypto(0, message(24, b"\0")), level=level)
    yield case("no frames in Handshake", "§12.4", VIOLATION, b"", level=Epoch.HANDSHAKE)
    yield case("ClientHello of junk", "RFC 8446 §6.2", "CRYPTO_ERROR decode_error", crypto(0, message(1, bytes(40))), level=Epoch.INITIAL)
    finished = message(20, bytes(32))
    yield case("Finished with another hash", "RFC 8446 §4.4.4", "CRYPTO_ERROR decrypt_error", crypto(0, finished), level=Epoch.HANDSHAKE)
    later = {"level": Epoch.INITIAL, "when": Epoch.HANDSHAKE}
    yield case("CRYPTO in Initial after Handshake came", "RFC 9001 §4.1.3", VIOLATION, crypto(8000, b"1"), **later)


def replaced(identifier, value):
    value = v(value) if isinstance(value, int) else value
    return lambda parameters: [*[each for each in parameters if each[0] != identifier], (identifier, value)]


def parameter_cases():
    def row(name, section, edit, wants=PARAMETER):
        return Case(f"transport parameters: {name}", f"RFC 9000 {section}", (wants,) if isinstance(wants, str) else wants, parameters=edit)

    yield row("length beyond the end", "§7.4", lambda parameters: v(4) + v(9) + b"1")
    yield row("half an identifier", "§7.4", lambda parameters: b"\x40")
    yield row("integer with a byte more", "§7.4", replaced(0x1, v(30) + b"\0"))
    yield row("integer of no bytes", "§7.4", replaced(0x4, b""))
    yield row("same parameter twice", "§7.4", lambda parameters: [*parameters, next(each for each in parameters if each[0] == 0x4)])
    yield row("max_udp_payload_size of 1199", "§18.2", replaced(0x3, 1199))
    yield row("ack_delay_exponent of 21", "§18.2", replaced(0xA, 21))
    yield row("max_ack_delay of 2^14", "§18.2", replaced(0xB, 1 << 14))
    yield row("active_connection_id_limit of 1", "§18.2", replaced(0xE, 1))
    yield row("initial_max_streams_bidi above 2^60", "§4.6", replaced(0x8, MAX_STREAMS + 1), (PARAMETER, ENCODING))
    yield row("initial_max_streams_uni above 2^60", "§4.6", replaced(0x9, MAX_STREAMS + 1), (PARAMETER, ENCODING))
    yield row("disable_active_migration with a value", "§7.4", replaced(0xC, b"\x01"))
    yield row("no initial_source_connection_id", "§7.3", lambda parameters: [each for each in parameters if each[0] != 0xF])
    yield row("another initial_source_connection_id", "§7.3", replaced(0xF, b"12345678"), (PARAMETER, VIOLATION))
    yield row("initial_source_connection_id of 21 bytes", "§7.3", replaced(0xF, b"x" * 21), (PARAMETER, VIOLATION))
    yield row("original_destination_connection_id", "§18.2", replaced(0x0, b"12345678"))
    yield row("stateless_reset_token", "§18.2", replaced(0x2, bytes(16)))
    yield row("preferred_address", "§18.2", replaced(0xD, bytes([127, 0, 0, 1, 1, 1]) + bytes(18) + b"\x081234567" + b"8" + bytes(16)))
    yield row("retry_source_connection_id", "§18.2", replaced(0x10, b"12345678"))
    yield row("unknown parameter", "§7.4.2", replaced(27 + 31 * 100, b"anything"), GOES_ON)


def tls_cases():
    def row(name, rule, edit, *wants):
        return Case(f"ClientHello: {name}", rule, wants, tls=edit)

    yield row("no transport parameters", "RFC 9001 §8.2", lambda tls: setattr(tls, "handshake_extensions", []), "CRYPTO_ERROR missing_extension")
    yield row("no protocols", "RFC 9001 §8.1", lambda tls: setattr(tls, "_alpn_protocols", None), "CRYPTO_ERROR no_application_protocol")
    yield row("session id of TLS 1.2", "RFC 9001 §8.4", lambda tls: setattr(tls, "legacy_session_id", bytes(32)), VIOLATION)


# What Fairway does differently, by the name of the case, and why. It is expected until it changes. All of it is in quinn-proto 0.11.19.
KNOWN = {
    "STREAM that ends before what came": (GOES_ON, "Recv::ingest compares only with an end that is known; the stream does not end"),
    "STOP_SENDING over the limit": (GOES_ON, "StreamsState::received_stop_sending ignores streams that are not open"),
    "STREAM_DATA_BLOCKED over the limit": (GOES_ON, "Connection::process_payload looks only at streams of the server"),
    "RETIRE_CONNECTION_ID of the next number": (GOES_ON, "CidState::on_cid_retirement takes the number after the last one for issued"),
    "CRYPTO in bytes with gaps": ("INTERNAL_ERROR", "Connection::read_crypto has another code for too many gaps"),
    "CONNECTION_CLOSE of the application in Initial": ("silence", "Connection::process_early_payload takes it for the end"),
    "CONNECTION_CLOSE of the application in Handshake": ("silence", "Connection::process_early_payload takes it for the end"),
    "reserved bits in Initial": ("silence", "Endpoint::handle_first_packet drops it: there is no connection yet"),
}

CASES = [*ACKS, *STREAMS, *LIMITS, *CONNECTION_IDS, *FRAMES, *CRYPTOS, *early_cases(), *parameter_cases(), *tls_cases()]
