package main

// This file owns the rows of the table about QPACK: field sections, and the streams of encoder and decoder.

import (
	"bytes"
	"fmt"
	"maps"
	"slices"

	"fairway.dev/conformance/http3/peer"
	"fairway.dev/conformance/http3/wire"
)

// base are the field lines of a request.
func base() []byte {
	return wire.Join(wire.Indexed(true, 17), wire.Indexed(true, 23), wire.NameReference(true, 0, peer.PlainHost), wire.Indexed(true, 1))
}

// sectionOf is a HEADERS frame with the lines of a request, and others.
func sectionOf(lines ...[]byte) []byte {
	return wire.Frame(wire.Headers, wire.Block(base(), wire.Join(lines...)))
}

// bad are whole payloads of HEADERS that are no field sections.
var badSections = map[string][]byte{
	"nothing":                                  {},
	"half a prefix":                            {0x00},
	"endless integer in the prefix":            append([]byte{0xff}, bytes.Repeat([]byte{0xff}, 20)...),
	"static index 99":                          wire.Block(base(), wire.Indexed(true, 99)),
	"static index of 2^30":                     wire.Block(base(), wire.Indexed(true, 1<<30)),
	"name of static index 99":                  wire.Block(base(), wire.NameReference(true, 99, "x")),
	"dynamic index without an insert count":    wire.Block(base(), wire.Indexed(false, 0)),
	"dynamic name without an insert count":     wire.Block(base(), wire.NameReference(false, 0, "x")),
	"index after the base without a count":     wire.Block(base(), wire.PostBase(0)),
	"name after the base without a count":      wire.Block(base(), wire.PostBaseName(0, "x")),
	"insert count beyond the table":            wire.BlockWith(0xffff, 0, base()),
	"negative base":                            wire.Join([]byte{0x00, 0x80}, base()),
	"half an index":                            wire.Block(base(), []byte{0xff}),
	"endless index":                            wire.Block(base(), append([]byte{0xff}, bytes.Repeat([]byte{0x80}, 20)...)),
	"index above 2^62":                         wire.Block(base(), append([]byte{0xff}, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01)),
	"name longer than the section":             wire.Block(base(), []byte{0x27, 0x10, 'a'}),
	"value longer than the section":            wire.Block(base(), []byte{0x21, 'a', 0x7f, 0x10, 'b'}),
	"name without a value":                     wire.Block(base(), []byte{0x21, 'a'}),
	"length of a value above 2^62":             wire.Block(base(), []byte{0x21, 'a', 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01}),
	"Huffman code padded with zeros":           wire.Block(base(), wire.HuffmanLiteral("a", []byte{0x18})),
	"Huffman code padded with a byte":          wire.Block(base(), wire.HuffmanLiteral("a", append(wire.Huffman("www"), 0xff))),
	"Huffman code with the end-of-string code": wire.Block(base(), wire.HuffmanLiteral("a", []byte{0xff, 0xff, 0xff, 0xff})),
	"Huffman code cut off":                     wire.Block(base(), wire.HuffmanLiteral("a", []byte{0xff, 0xfe})),
}

// badInstructions are those of an encoder that are wrong with every table.
var badInstructions = map[string][]byte{
	"capacity of 2^40":                wire.SetCapacity(1 << 40),
	"endless capacity":                append([]byte{0x3f}, bytes.Repeat([]byte{0xff}, 20)...),
	"duplicate of nothing":            wire.Duplicate(0),
	"duplicate of index 2^30":         wire.Duplicate(1 << 30),
	"name of nothing":                 wire.InsertNamed(false, 0, "x"),
	"name of static index 99":         wire.InsertNamed(true, 99, "x"),
	"insert without a capacity":       wire.Insert("a", "b"),
	"named insert without a capacity": wire.InsertNamed(true, 0, "b"),
	"Huffman code padded with zeros":  wire.InsertHuffman("a", []byte{0x18}),
	"Huffman code with end-of-string": wire.InsertHuffman("a", []byte{0xff, 0xff, 0xff, 0xff}),
	"length of a name above 2^62":     {0x5f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01},
	"a whole section instead of that": {0x00, 0x00, 0xd1, 0xd7},
}

// badAcknowledgments are those of a decoder when the server's encoder has sent nothing.
var badAcknowledgments = map[string][]byte{
	"increment of 0":                     wire.Increment(0),
	"increment of what was not inserted": wire.Increment(1),
	"increment of 2^61":                  wire.Increment(1 << 61),
	"endless increment":                  append([]byte{0x3f}, bytes.Repeat([]byte{0xff}, 20)...),
	"acknowledgment of no section":       wire.Acknowledge(0),
	"acknowledgment of stream 4000":      wire.Acknowledge(4000),
}

// onEncoder are instructions on a stream of the encoder.
func onEncoder(instructions ...[]byte) []step {
	return []step{start, uni(encoder, wire.EncoderStream, goOn, instructions...)}
}

func qpackCases(capacity, blocked uint64) []hostileCase {
	all := slices.Clone(goodSections)
	for _, name := range slices.Sorted(maps.Keys(badSections)) {
		all = append(all, hostileCase{"qpack sections", name, "RFC 9204 §4.5, §6", onRequest(wire.Frame(wire.Headers, badSections[name])), closes(decompressionFailed)})
	}
	all = append(all, hostileCase{"qpack sections", "trailers with static index 99", "RFC 9204 §3.1", onRequest(post(), data, wire.Frame(wire.Headers, wire.Block(wire.Indexed(true, 99)))), closes(decompressionFailed)})
	for _, name := range slices.Sorted(maps.Keys(badInstructions)) {
		all = append(all, hostileCase{"qpack encoder", name, "RFC 9204 §4.3, §6", onEncoder(badInstructions[name]), closes(encoderStreamError)})
	}
	all = append(all,
		hostileCase{"qpack encoder", "capacity above the limit by 1", "RFC 9204 §3.2.3", onEncoder(wire.SetCapacity(capacity + 1)), closes(encoderStreamError)},
		hostileCase{"qpack encoder", "capacity of 0", "RFC 9204 §4.3.1", onEncoder(wire.SetCapacity(0)), goesOn},
		hostileCase{"qpack encoder", "value of 2^40 bytes", "RFC 9204 §7.4", onEncoder([]byte{0x41, 'a', 0x7f}, varying(1<<40)), either(closes(encoderStreamError), goesOn)},
		hostileCase{"qpack encoder", "end inside of an instruction", "RFC 9204 §4.2", []step{start, uni(encoder, wire.EncoderStream, finish, []byte{0x3f})}, closes(closedCriticalStream, encoderStreamError)},
	)
	for _, name := range slices.Sorted(maps.Keys(badAcknowledgments)) {
		all = append(all, hostileCase{"qpack decoder", name, "RFC 9204 §4.4, §6", []step{start, uni(decoder, wire.DecoderStream, goOn, badAcknowledgments[name])}, closes(decoderStreamError)})
	}
	all = append(all, hostileCase{"qpack decoder", "cancellation of a stream that is not there", "RFC 9204 §4.4.2", []step{start, uni(decoder, wire.DecoderStream, goOn, wire.CancelStream(4000))}, goesOn})
	if capacity < 128 {
		return all
	}
	// Without blocked streams, a section could come before the entries that it refers to.
	if blocked > 0 {
		all = append(all, tableCases(capacity)...)
	}
	return append(all, blockedCases(capacity, blocked)...)
}

// varying is what follows a full prefix of 7 bits.
func varying(value uint64) []byte {
	var bytes []byte
	for value -= 127; value >= 0x80; value >>= 7 {
		bytes = append(bytes, byte(value)|0x80)
	}
	return append(bytes, byte(value))
}

var goodSections = []hostileCase{
	{"qpack sections", "static references", "RFC 9204 §4.5.2", onRequest(sectionOf()), served},
	{"qpack sections", "static reference of index 98", "RFC 9204 Appendix A", onRequest(sectionOf(wire.Indexed(true, 98))), served},
	{"qpack sections", "Huffman code", "RFC 9204 §4.1.2", onRequest(sectionOf(wire.HuffmanLiteral("a", wire.Huffman("www.example.com")))), served},
	{"qpack sections", "literal that is never indexed", "RFC 9204 §4.5.6", onRequest(sectionOf([]byte{0x31, 'a', 0x01, 'b'})), served},
	{"qpack sections", "base without references", "RFC 9204 §4.5.1.2", onRequest(wire.Frame(wire.Headers, wire.BlockWith(0, 5, base()))), either(served, closes(decompressionFailed))},
	{"qpack sections", "length in more bytes than it needs", "RFC 7541 §5.1", onRequest(sectionOf([]byte{0x27, 0x80, 0x00}, []byte("abcdefg"), []byte{0x01, 'b'})), served},
}

// count is the encoded Required Insert Count (RFC 9204 §4.5.1.1).
func count(required, capacity uint64) uint64 { return required%(2*(capacity/32)) + 1 }

// referring is a HEADERS frame with the lines of a request, and others that refer to the dynamic table. The base is the count.
func referring(required, capacity uint64, lines ...[]byte) []byte {
	return wire.Frame(wire.Headers, wire.BlockWith(count(required, capacity), 0, base(), wire.Join(lines...)))
}

// tableCases use the dynamic table, right and wrong.
func tableCases(capacity uint64) []hostileCase {
	one := func(name, rule string, instructions []byte, head []byte, wants []outcome) hostileCase {
		return hostileCase{"qpack table", name, rule, append(onEncoder(instructions), step{stream: request1, bytes: head, then: finish}), wants}
	}
	fill := wire.Join(wire.SetCapacity(capacity), wire.Insert("x-a", "1"), wire.Insert("x-b", "2"))
	small := wire.Join(wire.SetCapacity(64), wire.Insert("x-a", "1"), wire.Insert("x-b", "2"))
	return []hostileCase{
		one("reference to an entry", "RFC 9204 §4.5.2", fill, referring(2, capacity, wire.Indexed(false, 0), wire.Indexed(false, 1)), served),
		one("name of an entry", "RFC 9204 §4.5.4", fill, referring(2, capacity, wire.NameReference(false, 0, "x")), served),
		one("duplicated entry", "RFC 9204 §4.3.4", wire.Join(fill, wire.Duplicate(1)), referring(3, capacity, wire.Indexed(false, 0)), served),
		one("entry that is larger than the capacity", "RFC 9204 §3.2.2", wire.Join(wire.SetCapacity(64), wire.Insert("x", string(make([]byte, 64)))), get(), closes(encoderStreamError)),
		one("reference to an evicted entry", "RFC 9204 §2.2.3", small, referring(2, capacity, wire.Indexed(false, 1)), closes(decompressionFailed)),
		one("reference beyond the insert count", "RFC 9204 §2.2.3", fill, wire.Frame(wire.Headers, wire.BlockWith(count(1, capacity), 1, base(), wire.Indexed(false, 0))), closes(decompressionFailed)),
		one("index before the first entry", "RFC 9204 §2.2.3", fill, referring(2, capacity, wire.Indexed(false, 2)), closes(decompressionFailed)),
		one("base below zero", "RFC 9204 §4.5.1.2", fill, wire.Frame(wire.Headers, wire.Join([]byte{byte(count(2, capacity)), 0x82}, base())), closes(decompressionFailed)),
		one("insert count that no reference needs", "RFC 9204 §2.2.1", fill, referring(2, capacity, wire.Indexed(false, 1)), either(served, closes(decompressionFailed))),
		one("duplicate of an evicted entry", "RFC 9204 §2.2.3", wire.Join(small, wire.Duplicate(1)), get(), closes(encoderStreamError)),
		one("name of an evicted entry", "RFC 9204 §2.2.3", wire.Join(small, wire.InsertNamed(false, 1, "x")), get(), closes(encoderStreamError)),
		one("entry after the capacity became 0", "RFC 9204 §3.2.2", wire.Join(fill, wire.SetCapacity(0), wire.Insert("a", "b")), get(), closes(encoderStreamError)),
		one("1,000 inserts that evict each other", "RFC 9204 §3.2.2", wire.Join(wire.SetCapacity(capacity), bytes.Repeat(wire.Insert("x-name", string(bytes.Repeat([]byte("v"), 60))), 1000)), get(), served),
		one("upper case from the table", "RFC 9114 §4.2", wire.Join(wire.SetCapacity(capacity), wire.Insert("X-Upper", "1")), referring(1, capacity, wire.Indexed(false, 0)), malformed),
	}
}

// blockedCases are sections that wait for inserts.
func blockedCases(capacity, blocked uint64) []hostileCase {
	waits := referring(1, capacity, wire.Indexed(false, 0))
	insert := wire.Join(wire.SetCapacity(capacity), wire.Insert("x-a", "1"))
	if blocked == 0 {
		return []hostileCase{{"qpack blocked", "section that waits", "RFC 9204 §2.1.2", onRequest(waits), closes(decompressionFailed)}}
	}
	fill := []step{start}
	for number := range blocked {
		fill = append(fill, step{stream: fmt.Sprint(request1, number), bytes: waits, then: finish})
	}
	one := step{stream: fmt.Sprint(request1, "+"), bytes: waits, then: finish}
	enter := uni(encoder, wire.EncoderStream, goOn, insert)
	return []hostileCase{
		{"qpack blocked", "section whose insert comes later", "RFC 9204 §2.2.1", append(onRequest(waits), enter), served},
		{"qpack blocked", "section whose insert never comes", "RFC 9204 §2.2.1", onRequest(waits), goesOn},
		{"qpack blocked", "section that waits and is reset", "RFC 9204 §2.2.2.2", []step{start, {stream: request1, bytes: waits, then: reset, code: requestCancelled}}, either(goesOn, resets(requestCancelled, requestIncomplete, requestRejected))},
		{"qpack blocked", "as many sections as may wait", "RFC 9204 §2.1.2", fill, goesOn},
		{"qpack blocked", "as many sections as may wait, and the insert", "RFC 9204 §2.1.2", append(slices.Clone(fill), enter), served},
		{"qpack blocked", "one section more than may wait", "RFC 9204 §2.1.2", append(slices.Clone(fill), one), closes(decompressionFailed)},
		{"qpack blocked", "trailers whose insert comes later", "RFC 9204 §2.2.1", append(onRequest(post(), data, wire.Frame(wire.Headers, wire.BlockWith(count(1, capacity), 0, wire.Indexed(false, 0)))), enter), served},
		{"qpack blocked", "trailers whose insert never comes", "RFC 9204 §2.2.1", onRequest(post(), data, wire.Frame(wire.Headers, wire.BlockWith(count(1, capacity), 0, wire.Indexed(false, 0)))), goesOn},
	}
}
