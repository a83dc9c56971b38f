package main

// This file owns the table of the group `hostile` but for QPACK: streams, frames and their order, SETTINGS, and messages.

import (
	"bytes"
	"maps"
	"slices"
	"strings"

	"fairway.dev/conformance/http3/peer"
	"fairway.dev/conformance/http3/wire"
)

// The outcomes that rules require.
func closes(codes ...uint64) []outcome { return outcomes(connectionError, codes) }
func resets(codes ...uint64) []outcome { return outcomes(streamError, codes) }

func outcomes(kind outcomeKind, codes []uint64) []outcome {
	var all []outcome
	for _, code := range codes {
		all = append(all, outcome{kind: kind, code: code})
	}
	return all
}

var (
	goesOn = []outcome{{kind: open}}
	served = []outcome{{kind: response, status: "200"}}
	// malformed is a stream error, before which a server may send a response (RFC 9114 §4.1.2).
	malformed = append(resets(messageError), outcome{kind: response, status: "4xx"})
	tooLarge  = append(append(resets(excessiveLoad), closes(excessiveLoad)...), outcome{kind: response, status: "431"})
)

func either(all ...[]outcome) []outcome { return slices.Concat(all...) }

// start is sent first by a client.
var start = step{stream: control, bytes: controlStart}

// get is a request.
func get() []byte { return request(peer.PlainHost, "/") }

// post has no length.
func post() []byte { return withMethod("POST") }

func withMethod(method string, more ...wire.Field) []byte {
	return wire.Frame(wire.Headers, wire.Fields(append(head(method, peer.PlainHost, "/body"), more...)...))
}

// section is the field section of a request.
func section() []byte { return wire.Fields(head("GET", peer.PlainHost, "/")...) }

// onRequest is a case of one request stream, which ends after the bytes.
func onRequest(parts ...[]byte) []step {
	return []step{start, {stream: request1, bytes: wire.Join(parts...), then: finish}}
}

// onControl is a case of bytes after SETTINGS.
func onControl(parts ...[]byte) []step {
	return []step{{stream: control, bytes: wire.Join(controlStart, wire.Join(parts...))}}
}

// controlStream is a control stream whose first frame is not SETTINGS.
func controlStream(frame []byte) []step {
	return []step{{stream: control, bytes: wire.Join(wire.Varint(wire.ControlStream), frame)}}
}

// settings is a control stream with these settings.
func settings(pairs ...uint64) []step { return controlStream(wire.SettingsFrame(pairs...)) }

// after runs steps after a completed request, so that the server has processed all earlier bytes.
func after(steps ...step) []step {
	return slices.Concat([]step{start, {stream: request1, bytes: get(), then: await}}, steps)
}

func uni(name string, kind uint64, then action, more ...[]byte) step {
	return step{stream: name, bytes: wire.Join(wire.Varint(kind), wire.Join(more...)), then: then, code: requestCancelled}
}

// hostileCases is the table, for a server that offers this much of a dynamic table.
func hostileCases(capacity, blocked uint64) []hostileCase {
	all := slices.Concat(streamCases, controlCases, settingsCases, requestCases, messageCases)
	return slices.Concat(all, qpackCases(capacity, blocked))
}

var streamCases = []hostileCase{
	{"streams", "second control stream", "RFC 9114 §6.2.1", []step{start, uni("control 2", wire.ControlStream, goOn, wire.SettingsFrame())}, closes(streamCreationError)},
	{"streams", "second encoder stream", "RFC 9204 §4.2", []step{start, uni(encoder, wire.EncoderStream, goOn), uni("encoder 2", wire.EncoderStream, goOn)}, closes(streamCreationError)},
	{"streams", "second decoder stream", "RFC 9204 §4.2", []step{start, uni(decoder, wire.DecoderStream, goOn), uni("decoder 2", wire.DecoderStream, goOn)}, closes(streamCreationError)},
	{"streams", "push stream of a client", "RFC 9114 §6.2.2", []step{start, uni("push", wire.PushStream, goOn, wire.Varint(0))}, closes(streamCreationError)},
	{"streams", "control stream ends", "RFC 9114 §6.2.1", []step{{stream: control, bytes: controlStart, then: finish}}, closes(closedCriticalStream)},
	{"streams", "control stream ends before SETTINGS", "RFC 9114 §6.2.1", []step{uni(control, wire.ControlStream, finish)}, closes(closedCriticalStream, missingSettings)},
	{"streams", "control stream is reset", "RFC 9114 §6.2.1", after(step{stream: control, then: reset, code: requestCancelled}), closes(closedCriticalStream)},
	{"streams", "encoder stream ends", "RFC 9204 §4.2", []step{start, uni(encoder, wire.EncoderStream, finish)}, closes(closedCriticalStream)},
	{"streams", "encoder stream is reset", "RFC 9204 §4.2", slices.Concat([]step{uni(encoder, wire.EncoderStream, goOn)}, after(step{stream: encoder, then: reset, code: noError})), closes(closedCriticalStream)},
	{"streams", "decoder stream ends", "RFC 9204 §4.2", []step{start, uni(decoder, wire.DecoderStream, finish)}, closes(closedCriticalStream)},
	{"streams", "decoder stream is reset", "RFC 9204 §4.2", slices.Concat([]step{uni(decoder, wire.DecoderStream, goOn)}, after(step{stream: decoder, then: reset, code: noError})), closes(closedCriticalStream)},
	{"streams", "server's control stream is asked to stop", "RFC 9114 §6.2.1", after(step{then: stopServer, server: wire.ControlStream, code: noError}), closes(closedCriticalStream)},
	{"streams", "server's encoder stream is asked to stop", "RFC 9204 §4.2", after(step{then: stopServer, server: wire.EncoderStream, code: noError}), either(closes(closedCriticalStream), []outcome{{kind: absent}})},
	{"streams", "server's decoder stream is asked to stop", "RFC 9204 §4.2", after(step{then: stopServer, server: wire.DecoderStream, code: noError}), either(closes(closedCriticalStream), []outcome{{kind: absent}})},
	{"streams", "reserved type with payload", "RFC 9114 §6.2.3", []step{start, uni("grease", wire.Reserved, finish, make([]byte, 1000))}, goesOn},
	{"streams", "reserved type without payload", "RFC 9114 §6.2.3", []step{start, uni("grease", wire.Reserved, goOn)}, goesOn},
	{"streams", "reserved type that is reset", "RFC 9114 §6.2.3", []step{start, uni("grease", wire.Reserved, reset, make([]byte, 1000))}, goesOn},
	{"streams", "unknown type of 8 bytes with 100 kB", "RFC 9114 §6.2", []step{start, uni("unknown", 1<<61+7, finish, make([]byte, 100_000))}, goesOn},
	{"streams", "type of WebTransport", "RFC 9114 §6.2", []step{start, uni("unknown", 0x54, finish, []byte("\x00text"))}, goesOn},
	{"streams", "end before the type", "RFC 9114 §6.2", []step{start, {stream: "none", then: finish}}, goesOn},
	{"streams", "reset before the type", "RFC 9114 §6.2", []step{start, {stream: "none", then: reset, code: noError}}, goesOn},
	{"streams", "end inside of the type", "RFC 9114 §6.2", []step{start, {stream: "half", bytes: []byte{0x40}, then: finish}}, goesOn},
	{"streams", "control stream with its type in 8 bytes", "RFC 9000 §16", []step{{stream: control, bytes: wire.Join(wire.LongVarint(0, 8), wire.SettingsFrame())}, {stream: request1, bytes: get(), then: finish}}, served},
	{"streams", "control stream byte by byte", "RFC 9114 §6.2.1", []step{{stream: control, bytes: wire.Join(controlStart, wire.Frame(wire.Reserved, []byte("grease"))), then: bytewise}, {stream: request1, bytes: get(), then: finish}}, served},
	{"streams", "request before the control stream", "RFC 9114 §6.2.1", []step{{stream: request1, bytes: get(), then: finish}, start}, served},
	{"streams", "request without frames", "RFC 9114 §4.1", onRequest(), either(resets(requestIncomplete), malformed)},
	{"streams", "request is reset before a byte", "RFC 9114 §4.1.1", []step{start, {stream: request1, then: reset, code: requestCancelled}}, either(goesOn, resets(requestCancelled, requestIncomplete, requestRejected))},
	{"streams", "response is asked to stop", "RFC 9114 §4.1.1", []step{start, {stream: request1, bytes: get(), then: stop, code: requestCancelled}}, goesOn},
}

// largest is the largest integer of QUIC.
const largest = 1<<62 - 1

var controlCases = slices.Concat([]hostileCase{
	{"control", "GOAWAY before SETTINGS", "RFC 9114 §6.2.1", controlStream(wire.Frame(wire.GoAway, wire.Varint(0))), closes(missingSettings)},
	{"control", "MAX_PUSH_ID before SETTINGS", "RFC 9114 §6.2.1", controlStream(wire.Frame(wire.MaxPushID, wire.Varint(0))), closes(missingSettings)},
	{"control", "CANCEL_PUSH before SETTINGS", "RFC 9114 §6.2.1", controlStream(wire.Frame(wire.CancelPush, wire.Varint(0))), closes(missingSettings)},
	{"control", "reserved frame before SETTINGS", "RFC 9114 §6.2.1", controlStream(wire.Frame(wire.Reserved, []byte("grease"))), closes(missingSettings)},
	{"control", "PRIORITY_UPDATE before SETTINGS", "RFC 9114 §6.2.1", controlStream(wire.Frame(wire.PriorityUpdateRequest, wire.Varint(0), []byte("u=1"))), closes(missingSettings)},
	{"control", "DATA before SETTINGS", "RFC 9114 §6.2.1", controlStream(wire.Frame(wire.Data, []byte("x"))), closes(missingSettings, frameUnexpected)},
	{"control", "HEADERS before SETTINGS", "RFC 9114 §6.2.1", controlStream(get()), closes(missingSettings, frameUnexpected)},
	{"control", "second SETTINGS", "RFC 9114 §7.2.4", onControl(wire.SettingsFrame()), closes(frameUnexpected)},
	{"control", "reserved frame", "RFC 9114 §7.2.8", onControl(wire.Frame(wire.Reserved, []byte("grease"))), goesOn},
	{"control", "reserved frame without payload", "RFC 9114 §7.2.8", onControl(wire.Frame(wire.Reserved)), goesOn},
	{"control", "reserved frame of 70 kB", "RFC 9114 §7.2.8", onControl(wire.Frame(wire.Reserved, make([]byte, 70_000))), goesOn},
	{"control", "unknown frame of the largest type", "RFC 9114 §9", onControl(wire.Frame(largest, []byte("unknown"))), goesOn},
	{"control", "frame that does not end", "RFC 9114 §7.1", onControl(wire.LyingFrame(wire.Reserved, largest, []byte("x"))), goesOn},
	{"control", "end inside of a frame", "RFC 9114 §6.2.1, §7.1", []step{{stream: control, bytes: wire.Join(controlStart, wire.LyingFrame(wire.GoAway, 8, []byte{0xc0})), then: finish}}, closes(closedCriticalStream, frameError)},
	{"control", "MAX_PUSH_ID that grows", "RFC 9114 §7.2.7", onControl(maxPush(0), maxPush(10), maxPush(10)), goesOn},
	{"control", "MAX_PUSH_ID that shrinks", "RFC 9114 §7.2.7", onControl(maxPush(10), maxPush(9)), closes(idError)},
	{"control", "GOAWAY, and then a request", "RFC 9114 §5.2", onControl(goAway(0)), goesOn},
	{"control", "GOAWAY that shrinks", "RFC 9114 §5.2", onControl(goAway(100), goAway(1)), goesOn},
	{"control", "GOAWAY that grows", "RFC 9114 §5.2", onControl(goAway(1), goAway(2)), closes(idError)},
	{"control", "CANCEL_PUSH without MAX_PUSH_ID", "RFC 9114 §7.2.3", onControl(cancelPush(0)), closes(idError)},
	{"control", "CANCEL_PUSH above MAX_PUSH_ID", "RFC 9114 §7.2.3", onControl(maxPush(3), cancelPush(5)), closes(idError)},
	{"control", "CANCEL_PUSH of what was not promised", "RFC 9114 §7.2.3", onControl(maxPush(10), cancelPush(5)), closes(idError)},
	{"control", "PRIORITY_UPDATE of a request to come", "RFC 9218 §7.2", onControl(priority(0, "u=1, i")), goesOn},
	{"control", "PRIORITY_UPDATE of a stream that is no request", "RFC 9218 §7.2", onControl(priority(2, "u=1")), either(closes(idError), goesOn)},
	{"control", "PRIORITY_UPDATE of a stream far above the limit", "RFC 9218 §7.2", onControl(priority(largest-3, "u=1")), either(closes(idError), goesOn)},
	{"control", "PRIORITY_UPDATE of a push", "RFC 9218 §7.2", onControl(wire.Frame(wire.PriorityUpdatePush, wire.Varint(0), []byte("u=1"))), either(closes(idError), goesOn)},
	{"control", "PRIORITY_UPDATE without a stream", "RFC 9114 §7.1", onControl(wire.Frame(wire.PriorityUpdateRequest)), either(closes(frameError), goesOn)},
	{"control", "10,000 PRIORITY_UPDATE frames", "RFC 9218 §7.2", onControl(bytes.Repeat(priority(0, "u=1"), 10_000)), either(goesOn, closes(excessiveLoad))},
}, forbidden("control", "RFC 9114 §7.2", onControl, map[string][]byte{
	"DATA": wire.Frame(wire.Data, []byte("x")), "DATA without payload": wire.Frame(wire.Data), "HEADERS": get(),
	"PUSH_PROMISE":       wire.Frame(wire.PushPromise, wire.Varint(0), wire.Fields()),
	"PRIORITY of HTTP/2": wire.Frame(wire.HTTP2Priority, make([]byte, 5)), "PING of HTTP/2": wire.Frame(wire.HTTP2Ping, make([]byte, 8)),
	"WINDOW_UPDATE of HTTP/2": wire.Frame(wire.HTTP2WindowUpdate, make([]byte, 4)), "CONTINUATION of HTTP/2": wire.Frame(wire.HTTP2Continuation),
}), idPayloads())

func maxPush(id uint64) []byte    { return wire.Frame(wire.MaxPushID, wire.Varint(id)) }
func goAway(id uint64) []byte     { return wire.Frame(wire.GoAway, wire.Varint(id)) }
func cancelPush(id uint64) []byte { return wire.Frame(wire.CancelPush, wire.Varint(id)) }
func priority(id uint64, value string) []byte {
	return wire.Frame(wire.PriorityUpdateRequest, wire.Varint(id), []byte(value))
}

// forbidden are frames that are H3_FRAME_UNEXPECTED on a stream.
func forbidden(area, rule string, on func(...[]byte) []step, frames map[string][]byte) []hostileCase {
	var all []hostileCase
	for _, name := range slices.Sorted(maps.Keys(frames)) {
		all = append(all, hostileCase{area, name + " on the " + area + " stream", rule, on(frames[name]), closes(frameUnexpected)})
	}
	return all
}

// idPayloads are frames of one ID whose payloads have less or more than that.
func idPayloads() []hostileCase {
	var all []hostileCase
	for _, frame := range []struct {
		name string
		kind uint64
	}{{"GOAWAY", wire.GoAway}, {"MAX_PUSH_ID", wire.MaxPushID}, {"CANCEL_PUSH", wire.CancelPush}} {
		for _, payload := range []struct {
			name  string
			bytes []byte
		}{{"without an ID", nil}, {"with half an ID", []byte{0x40}}, {"with an ID and a byte", []byte{0x00, 0x00}}} {
			all = append(all, hostileCase{"control", frame.name + " " + payload.name, "RFC 9114 §7.1", onControl(wire.Frame(frame.kind, payload.bytes)), closes(frameError)})
		}
	}
	return all
}

var settingsCases = []hostileCase{
	{"settings", "none", "RFC 9114 §7.2.4", settings(), goesOn},
	{"settings", "all that there are", "RFC 9114 §7.2.4.1", settings(wire.TableCapacity, 4096, wire.MaxFieldSection, 65_536, wire.BlockedStreams, 16), goesOn},
	{"settings", "largest values", "RFC 9114 §7.2.4", settings(wire.TableCapacity, largest, wire.MaxFieldSection, largest, wire.BlockedStreams, largest), goesOn},
	{"settings", "reserved and unknown identifiers", "RFC 9114 §7.2.4.1", settings(wire.Reserved, 0, wire.Reserved+0x1f, largest, largest, 1), goesOn},
	{"settings", "ENABLE_PUSH of HTTP/2", "RFC 9114 §7.2.4.1", settings(0x02, 0), closes(settingsError)},
	{"settings", "MAX_CONCURRENT_STREAMS of HTTP/2", "RFC 9114 §7.2.4.1", settings(0x03, 100), closes(settingsError)},
	{"settings", "INITIAL_WINDOW_SIZE of HTTP/2", "RFC 9114 §7.2.4.1", settings(0x04, 65_535), closes(settingsError)},
	{"settings", "MAX_FRAME_SIZE of HTTP/2", "RFC 9114 §7.2.4.1", settings(0x05, 16_384), closes(settingsError)},
	// A receiver may leave duplicates unnoticed.
	{"settings", "same identifier twice", "RFC 9114 §7.2.4", settings(wire.BlockedStreams, 1, wire.BlockedStreams, 1), either(closes(settingsError), goesOn)},
	{"settings", "same identifier with another value", "RFC 9114 §7.2.4", settings(wire.TableCapacity, 1, wire.TableCapacity, 2), either(closes(settingsError), goesOn)},
	{"settings", "identifier 0", "RFC 9114 §11.2.2", settings(0x00, 0), either(closes(settingsError), goesOn)},
	{"settings", "identifier without a value", "RFC 9114 §7.1", controlStream(wire.Frame(wire.Settings, wire.Varint(wire.TableCapacity))), closes(frameError)},
	{"settings", "half an identifier", "RFC 9114 §7.1", controlStream(wire.Frame(wire.Settings, []byte{0x40})), closes(frameError)},
	{"settings", "half a value", "RFC 9114 §7.1", controlStream(wire.Frame(wire.Settings, []byte{0x01, 0xc0, 0x00})), closes(frameError)},
	{"settings", "H3_DATAGRAM of 2", "RFC 9297 §2.1.1", settings(0x33, 2), either(closes(settingsError), goesOn)},
	{"settings", "ENABLE_CONNECT_PROTOCOL of 2", "RFC 8441 §3, RFC 9220 §3", settings(wire.ExtendedConnect, 2), either(closes(settingsError), goesOn)},
	{"settings", "200 unknown identifiers", "RFC 9114 §7.2.4", settings(manySettings(200)...), either(goesOn, closes(excessiveLoad))},
	{"settings", "10,000 unknown identifiers", "RFC 9114 §7.2.4, §8.1", settings(manySettings(10_000)...), either(goesOn, closes(excessiveLoad))},
	{"settings", "of a length that the stream never has", "RFC 9114 §7.1", controlStream(wire.LyingFrame(wire.Settings, 1<<40, []byte{0x01, 0x00})), either(goesOn, closes(excessiveLoad, frameError))},
	{"settings", "in frames of non-minimal integers", "RFC 9000 §16", controlStream(wire.Join(wire.LongVarint(wire.Settings, 8), wire.LongVarint(9, 4), wire.LongVarint(wire.BlockedStreams, 8), wire.Varint(3))), goesOn},
}

func manySettings(count uint64) []uint64 {
	var pairs []uint64
	for number := range count {
		pairs = append(pairs, 0x1f*(number+100)+0x21, number)
	}
	return pairs
}

var (
	trailers = wire.Frame(wire.Headers, wire.Fields(wire.Field{Name: "x-trailer", Value: "1"}))
	data     = wire.Frame(wire.Data, []byte("data"))
	grease   = wire.Frame(wire.Reserved, []byte("grease"))
)

var requestCases = slices.Concat([]hostileCase{
	{"request", "DATA before HEADERS", "RFC 9114 §4.1", onRequest(data, post()), closes(frameUnexpected)},
	{"request", "DATA without payload before HEADERS", "RFC 9114 §4.1", onRequest(wire.Frame(wire.Data), post()), closes(frameUnexpected)},
	{"request", "DATA after trailers", "RFC 9114 §4.1", onRequest(post(), data, trailers, data), closes(frameUnexpected)},
	{"request", "HEADERS after trailers", "RFC 9114 §4.1", onRequest(post(), data, trailers, trailers), closes(frameUnexpected)},
	{"request", "trailers", "RFC 9114 §4.1", onRequest(post(), data, trailers), served},
	{"request", "trailers without a body", "RFC 9114 §4.1", onRequest(post(), trailers), served},
	{"request", "reserved frames everywhere", "RFC 9114 §7.2.8", onRequest(grease, post(), grease, data, wire.Frame(wire.Reserved), data, trailers, grease), served},
	{"request", "reserved frame of 70 kB", "RFC 9114 §7.2.8", onRequest(post(), wire.Frame(wire.Reserved+0x1f, make([]byte, 70_000)), data), served},
	{"request", "DATA without payload", "RFC 9114 §7.2.1", onRequest(post(), wire.Frame(wire.Data), wire.Frame(wire.Data)), served},
	{"request", "10,000 DATA frames without payload", "RFC 9114 §10.5", onRequest(post(), bytes.Repeat(wire.Frame(wire.Data), 10_000)), either(served, closes(excessiveLoad), resets(excessiveLoad))},
	{"request", "10,000 DATA frames of a byte", "RFC 9114 §10.5", onRequest(post(), bytes.Repeat(wire.Frame(wire.Data, []byte("x")), 10_000)), either(served, closes(excessiveLoad), resets(excessiveLoad))},
	{"request", "10,000 reserved frames", "RFC 9114 §10.5", onRequest(post(), bytes.Repeat(grease, 10_000)), either(served, closes(excessiveLoad), resets(excessiveLoad))},
	{"request", "byte by byte", "RFC 9114 §7.1", []step{start, {stream: request1, bytes: wire.Join(get(), trailers), then: bytewise}, {stream: request1, then: finish}}, served},
	{"request", "non-minimal integers in frames", "RFC 9000 §16", onRequest(longFrame(wire.Headers, section()), longFrame(wire.Data, nil)), served},
	{"request", "only a reserved frame", "RFC 9114 §4.1", onRequest(grease), either(resets(requestIncomplete), malformed)},
	{"request", "end inside of a frame's type", "RFC 9114 §7.1", onRequest(get(), []byte{0x40}), closes(frameError)},
	{"request", "end inside of a frame's length", "RFC 9114 §7.1", onRequest(post(), []byte{0x00, 0x40}), closes(frameError)},
	{"request", "end after a frame's type", "RFC 9114 §7.1", onRequest(post(), []byte{0x00}), closes(frameError)},
	{"request", "end inside of HEADERS", "RFC 9114 §7.1", onRequest(get()[:20]), closes(frameError)},
	{"request", "end inside of DATA", "RFC 9114 §7.1", onRequest(post(), wire.LyingFrame(wire.Data, 100, []byte("data"))), closes(frameError)},
	{"request", "end inside of trailers", "RFC 9114 §7.1", onRequest(post(), data, trailers[:5]), closes(frameError)},
	{"request", "end inside of a reserved frame", "RFC 9114 §7.1", onRequest(post(), grease[:4]), closes(frameError)},
	{"request", "reset inside of HEADERS", "RFC 9114 §4.1.1", []step{start, {stream: request1, bytes: get()[:20], then: reset, code: requestCancelled}}, either(goesOn, resets(requestCancelled, requestIncomplete, requestRejected))},
	{"request", "reset inside of DATA", "RFC 9114 §4.1.1", []step{start, {stream: request1, bytes: wire.Join(post(), wire.LyingFrame(wire.Data, largest, []byte("data"))), then: reset, code: requestCancelled}}, either(goesOn, resets(requestCancelled, requestIncomplete, requestRejected, messageError), outcomeOf("4xx"))},
	{"request", "HEADERS of the largest length", "RFC 9114 §4.2.2, §10.5", []step{start, {stream: request1, bytes: wire.LyingFrame(wire.Headers, largest, section())}}, either(tooLarge, goesOn)},
	{"request", "header of 200 kB", "RFC 9114 §4.2.2", onRequest(request(peer.PlainHost, "/", wire.Field{Name: "x-large", Value: strings.Repeat("x", 200_000)})), either(tooLarge, resets(requestRejected))},
	{"request", "10,000 headers", "RFC 9114 §4.2.2", onRequest(request(peer.PlainHost, "/", slices.Repeat([]wire.Field{{Name: "x", Value: "y"}}, 10_000)...)), either(tooLarge, resets(requestRejected))},
	{"request", "trailers of 200 kB", "RFC 9114 §4.2.2", onRequest(post(), data, wire.Frame(wire.Headers, wire.Fields(wire.Field{Name: "x-large", Value: strings.Repeat("x", 200_000)}))), either(tooLarge, malformed, resets(requestRejected))},
}, forbidden("request", "RFC 9114 §7.2", func(frames ...[]byte) []step { return onRequest(append([][]byte{post()}, frames...)...) }, map[string][]byte{
	"SETTINGS": wire.SettingsFrame(), "GOAWAY": goAway(0), "MAX_PUSH_ID": maxPush(0), "CANCEL_PUSH": cancelPush(0),
	"PUSH_PROMISE": wire.Frame(wire.PushPromise, wire.Varint(0), wire.Fields()), "PRIORITY of HTTP/2": wire.Frame(wire.HTTP2Priority, make([]byte, 5)),
	"PING of HTTP/2": wire.Frame(wire.HTTP2Ping, make([]byte, 8)), "WINDOW_UPDATE of HTTP/2": wire.Frame(wire.HTTP2WindowUpdate, make([]byte, 4)),
	"CONTINUATION of HTTP/2": wire.Frame(wire.HTTP2Continuation),
}), []hostileCase{
	{"request", "PRIORITY_UPDATE on the request stream", "RFC 9218 §7.2", onRequest(post(), priority(0, "u=1")), either(closes(frameUnexpected), served)},
	{"request", "SETTINGS first on the request stream", "RFC 9114 §7.2.4", onRequest(wire.SettingsFrame(), get()), closes(frameUnexpected)},
	{"request", "WINDOW_UPDATE of HTTP/2 in a long integer", "RFC 9114 §7.2.8", onRequest(post(), wire.Join(wire.LongVarint(wire.HTTP2WindowUpdate, 8), []byte{0})), closes(frameUnexpected)},
})

func outcomeOf(status string) []outcome { return []outcome{{kind: response, status: status}} }

// longFrame is a frame whose type and length are longer than they need to be.
func longFrame(kind uint64, payload []byte) []byte {
	return wire.Join(wire.LongVarint(kind, 4), wire.LongVarint(uint64(len(payload)), 8), payload)
}

// messageCases are malformed messages. More of them, with a look at what reaches endpoints, are in the group `smuggling`.
var messageCases = func() []hostileCase {
	pseudo := func(names string) []wire.Field {
		values := map[string]string{":method": "GET", ":scheme": "https", ":authority": peer.PlainHost, ":path": "/", ":status": "200", ":new": "1",
			":protocol": "websocket"}
		var fields []wire.Field
		for _, name := range strings.Fields(names) {
			fields = append(fields, wire.Field{Name: name, Value: values[name]})
		}
		return fields
	}
	const all = ":method :scheme :authority :path"
	message := func(name, rule string, parts ...[]byte) hostileCase {
		return hostileCase{"messages", name, rule, onRequest(parts...), malformed}
	}
	headers := func(fields []wire.Field) []byte { return wire.Frame(wire.Headers, wire.Fields(fields...)) }
	with := func(name, value string) []byte {
		return headers(append(pseudo(all), wire.Field{Name: name, Value: value}))
	}
	found := []hostileCase{
		message("trailers with a pseudo-header", "RFC 9114 §4.3", post(), data, headers(pseudo(":path"))),
		message("content-length above the body", "RFC 9114 §4.1.2", withMethod("POST", wire.Field{Name: "content-length", Value: "5"}), data),
		message("content-length below the body", "RFC 9114 §4.1.2", withMethod("POST", wire.Field{Name: "content-length", Value: "3"}), data),
		message("content-length without a body", "RFC 9114 §4.1.2", withMethod("POST", wire.Field{Name: "content-length", Value: "1"})),
		message("pseudo-header after a header", "RFC 9114 §4.3", headers(append(pseudo(":method :scheme :authority"), wire.Field{Name: "a", Value: "b"}, wire.Field{Name: ":path", Value: "/"}))),
		message("name in upper case", "RFC 9114 §4.2", with("X-Upper", "1")),
		message("empty name", "RFC 9114 §10.3", with("", "1")),
		message("value with CR LF", "RFC 9114 §10.3", with("a", "b\r\nc: d")),
		message("no fields", "RFC 9114 §4.3.1", headers(nil)),
	}
	for names, name := range map[string]string{
		":scheme :authority :path": "no :method", ":method :authority :path": "no :scheme", ":method :scheme :authority": "no :path",
		all + " :method": "second :method", all + " :path": "second :path", all + " :authority": "second :authority", all + " :status": ":status in a request",
		all + " :new": "unknown pseudo-header", all + " :protocol": ":protocol without CONNECT",
	} {
		found = append(found, message(name, "RFC 9114 §4.3.1", headers(pseudo(names))))
	}
	for _, name := range []string{"connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade"} {
		found = append(found, message(name, "RFC 9114 §4.2", with(name, "close")))
	}
	slices.SortFunc(found, func(one, other hostileCase) int { return strings.Compare(one.name, other.name) })
	return found
}()
