"""Says what nghttp2 makes of bytes, for the differential of crates/fairway-http2/tests/codecs.rs.

Cases and answers are those of main.go in this folder. The library is the system's libnghttp2.so.14, called as it is.
"""

import ctypes
import struct
import sys

lib = ctypes.CDLL("libnghttp2.so.14")
for name in ("nghttp2_session_mem_recv", "nghttp2_session_mem_send", "nghttp2_hd_inflate_hd2"):
    getattr(lib, name).restype = ctypes.c_ssize_t


class Field(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.POINTER(ctypes.c_uint8)),
        ("value", ctypes.POINTER(ctypes.c_uint8)),
        ("name_length", ctypes.c_size_t),
        ("value_length", ctypes.c_size_t),
        ("flags", ctypes.c_uint8),
    ]


class Version(ctypes.Structure):
    _fields_ = [("age", ctypes.c_int), ("number", ctypes.c_int), ("text", ctypes.c_char_p), ("proto", ctypes.c_char_p)]


callbacks = ctypes.c_void_p()
lib.nghttp2_session_callbacks_new(ctypes.byref(callbacks))


def begun():
    session = ctypes.c_void_p()
    lib.nghttp2_session_server_new(ctypes.byref(session), callbacks, None)
    lib.nghttp2_submit_settings(session, 0, None, 0)
    return session


def written(session):
    output = b""
    piece = ctypes.POINTER(ctypes.c_uint8)()
    while (count := lib.nghttp2_session_mem_send(session, ctypes.byref(piece))) > 0:
        output += ctypes.string_at(piece, count)
    return output


def windows(case):
    """What may be sent on stream 1, no more than 100,000, or that the connection or the stream is gone."""
    session = begun()
    lib.nghttp2_session_mem_recv(session, case, ctypes.c_size_t(len(case)))
    room = [
        lib.nghttp2_session_get_stream_remote_window_size(session, 1),
        lib.nghttp2_session_get_remote_window_size(session),
    ]
    ended = is_ended(written(session))
    lib.nghttp2_session_del(session)
    return b"gone" if ended else str(max(0, min(*room, 100_000))).encode()


def is_ended(output):
    while len(output) >= 9:
        length, kind, stream = int.from_bytes(output[:3], "big"), output[3], int.from_bytes(output[5:9], "big")
        if kind == 7 or (kind, stream) == (3, 1):
            return True
        output = output[9 + length :]
    return False


def server(case):
    session = begun()
    read = lib.nghttp2_session_mem_recv(session, case, ctypes.c_size_t(len(case)))
    output = written(session)
    lib.nghttp2_session_del(session)
    # Without a GOAWAY, as after a wrong preface.
    return output if read >= 0 else b"closed"


def blocks(case):
    inflater = ctypes.c_void_p()
    lib.nghttp2_hd_inflate_new(ctypes.byref(inflater))
    output = b""
    while len(case) >= 2:
        (length,) = struct.unpack(">H", case[:2])
        block, case = case[2 : 2 + length], case[2 + length :]
        lines = one(inflater, block)
        if lines is None:
            output += b"error\n"
            break
        output += lines + b"\n"
    lib.nghttp2_hd_inflate_del(inflater)
    return output


def one(inflater, block):
    lines = b""
    buffer = ctypes.create_string_buffer(block, len(block) or 1)
    at, end = ctypes.addressof(buffer), ctypes.addressof(buffer) + len(block)
    while True:
        field, flags = Field(), ctypes.c_int(0)
        used = lib.nghttp2_hd_inflate_hd2(
            inflater, ctypes.byref(field), ctypes.byref(flags), ctypes.c_void_p(at), ctypes.c_size_t(end - at), 1
        )
        if used < 0:
            return None
        at += used
        if flags.value & 2:
            name, value = ctypes.string_at(field.name, field.name_length), ctypes.string_at(field.value, field.value_length)
            never = b" never" if field.flags & 1 else b""
            lines += name.hex().encode() + b": " + value.hex().encode() + never + b"\n"
        if flags.value & 1:
            lib.nghttp2_hd_inflate_end_headers(inflater)
            return lines
        if at == end and not flags.value & 2:
            return None


def main():
    if sys.argv[1] == "version":
        lib.nghttp2_version.restype = ctypes.POINTER(Version)
        print(lib.nghttp2_version(0).contents.text.decode())
        return
    answer = {"server": server, "hpack": blocks, "windows": windows}[sys.argv[1]]
    while len(length := sys.stdin.buffer.read(4)) == 4:
        output = answer(sys.stdin.buffer.read(struct.unpack(">I", length)[0]))
        sys.stdout.buffer.write(struct.pack(">I", len(output)) + output)


main()
