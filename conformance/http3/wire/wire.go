// Package wire writes HTTP/3 (RFC 9114) and QPACK (RFC 9204) byte by byte, valid and invalid, and reads responses.
package wire

import "slices"

// Frame types of RFC 9114 §7.2 and RFC 9218 §7.1, and those that only HTTP/2 had (RFC 9114 §7.2.8).
const (
	Data, Headers, CancelPush, Settings, PushPromise, GoAway, MaxPushID uint64 = 0x00, 0x01, 0x03, 0x04, 0x05, 0x07, 0x0d

	HTTP2Priority, HTTP2Ping, HTTP2WindowUpdate, HTTP2Continuation uint64 = 0x02, 0x06, 0x08, 0x09

	PriorityUpdateRequest, PriorityUpdatePush uint64 = 0xf0700, 0xf0701

	// Reserved is a frame type, and a setting, that every receiver ignores (RFC 9114 §7.2.8): 0x1f * 5 + 0x21.
	Reserved uint64 = 0x1f*5 + 0x21
)

// Types of unidirectional streams (RFC 9114 §6.2, RFC 9204 §4.2).
const (
	ControlStream, PushStream, EncoderStream, DecoderStream uint64 = 0x00, 0x01, 0x02, 0x03
)

// Settings (RFC 9114 §7.2.4.1, RFC 9204 §5, RFC 9220 §5).
const (
	TableCapacity, MaxFieldSection, BlockedStreams, ExtendedConnect uint64 = 0x01, 0x06, 0x07, 0x08
)

// Join is all parts, one after the other.
func Join(parts ...[]byte) []byte { return slices.Concat(parts...) }

// Varint is an integer of RFC 9000 §16 in its shortest form.
func Varint(value uint64) []byte {
	for _, size := range []int{1, 2, 4} {
		if value < 1<<(8*size-2) {
			return LongVarint(value, size)
		}
	}
	return LongVarint(value, 8)
}

// LongVarint is an integer in 1, 2, 4 or 8 bytes, whether it needs them or not.
func LongVarint(value uint64, size int) []byte {
	bytes := make([]byte, size)
	for index := range bytes {
		bytes[size-1-index] = byte(value >> (8 * index))
	}
	bytes[0] |= map[int]byte{1: 0x00, 2: 0x40, 4: 0x80, 8: 0xc0}[size]
	return bytes
}

// Frame is a whole frame.
func Frame(kind uint64, payload ...[]byte) []byte {
	joined := Join(payload...)
	return LyingFrame(kind, uint64(len(joined)), joined)
}

// LyingFrame is a frame whose length says something else than its payload has.
func LyingFrame(kind, length uint64, payload []byte) []byte {
	return Join(Varint(kind), Varint(length), payload)
}

// SettingsFrame has the settings in order: id, value, id, value.
func SettingsFrame(pairs ...uint64) []byte {
	var payload []byte
	for _, number := range pairs {
		payload = append(payload, Varint(number)...)
	}
	return Frame(Settings, payload)
}

// prefixed is an integer with a prefix of some bits (RFC 7541 §5.1, RFC 9204 §4.1.1) after the bits of first.
func prefixed(first byte, bits int, value uint64) []byte {
	limit := uint64(1)<<bits - 1
	if value < limit {
		return []byte{first | byte(value)}
	}
	bytes := []byte{first | byte(limit)}
	for value -= limit; value >= 0x80; value >>= 7 {
		bytes = append(bytes, byte(value)|0x80)
	}
	return append(bytes, byte(value))
}
