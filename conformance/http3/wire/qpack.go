package wire

import (
	"golang.org/x/net/http2/hpack"
)

// Field is a name and a value, as they are.
type Field struct{ Name, Value string }

// Block is a field section without references to the dynamic table: Required Insert Count and Base are 0 (RFC 9204 §4.5.1).
func Block(lines ...[]byte) []byte { return BlockWith(0, 0, lines...) }

// BlockWith is a field section whose encoded Required Insert Count and Delta Base (with a sign of 0) are given.
func BlockWith(insertCount, deltaBase uint64, lines ...[]byte) []byte {
	return Join(prefixed(0, 8, insertCount), prefixed(0, 7, deltaBase), Join(lines...))
}

// Fields is a field section of literals.
func Fields(fields ...Field) []byte {
	lines := make([][]byte, 0, len(fields))
	for _, field := range fields {
		lines = append(lines, Literal(field.Name, field.Value))
	}
	return Block(lines...)
}

// Literal is a field line with a literal name (RFC 9204 §4.5.6), without Huffman code.
func Literal(name, value string) []byte {
	return Join(prefixed(0x20, 3, uint64(len(name))), []byte(name), text(value))
}

// HuffmanLiteral is a field line whose name is literal and whose value has these bytes as its Huffman code.
func HuffmanLiteral(name string, code []byte) []byte {
	return Join(prefixed(0x20, 3, uint64(len(name))), []byte(name), prefixed(0x80, 7, uint64(len(code))), code)
}

// Huffman is the Huffman code of a text (RFC 7541 §5.2).
func Huffman(text string) []byte { return hpack.AppendHuffmanString(nil, text) }

// Indexed is a field line from the static table, or with a relative index from the dynamic one (RFC 9204 §4.5.2).
func Indexed(isStatic bool, index uint64) []byte {
	return prefixed(pick(isStatic, 0xc0, 0x80), 6, index)
}

// PostBase is a field line of the dynamic table after the base (RFC 9204 §4.5.3).
func PostBase(index uint64) []byte { return prefixed(0x10, 4, index) }

// NameReference is a field line whose name is in a table (RFC 9204 §4.5.4).
func NameReference(isStatic bool, index uint64, value string) []byte {
	return Join(prefixed(pick(isStatic, 0x50, 0x40), 4, index), text(value))
}

// PostBaseName is a field line whose name is in the dynamic table after the base (RFC 9204 §4.5.5).
func PostBaseName(index uint64, value string) []byte {
	return Join(prefixed(0x00, 3, index), text(value))
}

// SetCapacity is an instruction of the encoder (RFC 9204 §4.3.1).
func SetCapacity(capacity uint64) []byte { return prefixed(0x20, 5, capacity) }

// InsertNamed inserts an entry with a name of a table (RFC 9204 §4.3.2).
func InsertNamed(isStatic bool, index uint64, value string) []byte {
	return Join(prefixed(pick(isStatic, 0xc0, 0x80), 6, index), text(value))
}

// Insert inserts an entry with a literal name (RFC 9204 §4.3.3).
func Insert(name, value string) []byte {
	return Join(prefixed(0x40, 5, uint64(len(name))), []byte(name), text(value))
}

// InsertHuffman inserts an entry whose value has these bytes as its Huffman code.
func InsertHuffman(name string, code []byte) []byte {
	return Join(prefixed(0x40, 5, uint64(len(name))), []byte(name), prefixed(0x80, 7, uint64(len(code))), code)
}

// Duplicate is an instruction of the encoder (RFC 9204 §4.3.4).
func Duplicate(index uint64) []byte { return prefixed(0x00, 5, index) }

// Acknowledge is the Section Acknowledgment of a decoder (RFC 9204 §4.4.1).
func Acknowledge(stream uint64) []byte { return prefixed(0x80, 7, stream) }

// CancelStream is the Stream Cancellation of a decoder (RFC 9204 §4.4.2).
func CancelStream(stream uint64) []byte { return prefixed(0x40, 6, stream) }

// Increment is the Insert Count Increment of a decoder (RFC 9204 §4.4.3).
func Increment(count uint64) []byte { return prefixed(0x00, 6, count) }

func text(value string) []byte { return Join(prefixed(0, 7, uint64(len(value))), []byte(value)) }

func pick(condition bool, yes, no byte) byte {
	if condition {
		return yes
	}
	return no
}
