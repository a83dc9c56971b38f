package main

// This file owns the table of the group `smuggling`.

import (
	"slices"
	"strings"

	"fairway.dev/conformance/http3/wire"
)

func field(name, value string) wire.Field { return wire.Field{Name: name, Value: value} }

// rawHead are the pseudo-headers of a request, and other fields.
func rawHead(method, path string, more ...wire.Field) []wire.Field {
	return append(head(method, "HOST", path), more...)
}

func frame(body string) []byte { return wire.Frame(wire.Data, []byte(body)) }

// smuggled is a body that is a request of HTTP/1.1 itself.
const smuggled = "GET /smuggled HTTP/1.1\r\nHost: raw.test\r\n\r\n"

func smuggledCases() []smuggledCase {
	return slices.Concat(nameCases(), connectionCases(), lengthCases(), pseudoCases(), pathCases(), trailerCases())
}

// plain is a GET with fields.
func plain(name, rule string, want verdict, more ...wire.Field) smuggledCase {
	return smuggledCase{name: name, rule: rule, fields: rawHead("GET", "/case", more...), want: want}
}

// nameCases are names and values with characters that they must not have.
func nameCases() []smuggledCase {
	const rule = "RFC 9114 §4.2, §10.3"
	all := []smuggledCase{
		plain("nothing wrong", rule, forwarded, field("accept", "*/*")),
		plain("name in upper case", rule, refused, field("X-Upper", "1")),
		plain("Content-Length in upper case", rule, refused, field("Content-Length", "5")),
		plain("empty name", rule, refused, field("", "1")),
		plain("name with an underscore", "RFC 9110 §5.1", forwarded, field("x_y", "1")),
		plain("content_length", "RFC 9110 §5.1", forwarded, field("content_length", "5")),
		plain("transfer_encoding", "RFC 9110 §5.1", forwarded, field("transfer_encoding", "chunked")),
		plain("bytes above 0x7f in a value", "RFC 9110 §5.5", free, field("a", "\x80\xff")),
		plain("value with a tab", "RFC 9110 §5.5", forwarded, field("a", "b\tc")),
		plain("empty value", "RFC 9110 §5.5", forwarded, field("a", "")),
	}
	for name, text := range map[string]string{"CR": "\r", "LF": "\n", "CR LF": "\r\n", "NUL": "\x00", "space": " ", "colon": ":", "tab": "\t",
		"DEL": "\x7f", "byte above 0x7f": "\x80", "quote": `"`, "slash": "/", "bracket": "("} {
		all = append(all, plain("name with "+name, rule, refused, field("a"+text+"b", "1")))
	}
	for name, value := range map[string]string{"CR": "b\rsmuggled: 1", "LF": "b\nsmuggled: 1", "CR LF": "b\r\nsmuggled: 1",
		"CR LF and a request": "b\r\n\r\n" + smuggled, "NUL": "b\x00c"} {
		all = append(all, plain("value with "+name, rule, refused, field("a", value)))
	}
	for name, value := range map[string]string{"space before": " b", "space after": "b ", "tab before": "\tb", "tab after": "b\t"} {
		all = append(all, plain("value with "+name, "RFC 9110 §5.5", free, field("a", value)))
	}
	all = append(all,
		plain("name that is a header line", rule, refused, field("a: b\r\nsmuggled", "1")),
		plain("name with a colon first", rule, refused, field(":smuggled", "1")))
	return sorted(all)
}

func sorted(all []smuggledCase) []smuggledCase {
	slices.SortStableFunc(all, func(one, other smuggledCase) int { return strings.Compare(one.name, other.name) })
	return all
}

// connectionCases are fields that belong to a connection of HTTP/1.1.
func connectionCases() []smuggledCase {
	const rule = "RFC 9114 §4.2"
	return []smuggledCase{
		plain("connection: close", rule, refused, field("connection", "close")),
		plain("connection that names a header", rule, refused, field("connection", "connection-secret"), field("connection-secret", "1")),
		plain("keep-alive", rule, refused, field("keep-alive", "timeout=5")),
		plain("proxy-connection", rule, refused, field("proxy-connection", "close")),
		plain("upgrade: h2c", rule, refused, field("upgrade", "h2c"), field("http2-settings", "AAMAAABkAAQAAP__")),
		plain("te: gzip", rule, refused, field("te", "gzip")),
		plain("te: trailers, gzip", rule, refused, field("te", "trailers, gzip")),
		plain("te: trailers", rule, forwarded, field("te", "trailers")),
		{"transfer-encoding: chunked", rule, rawHead("POST", "/case", field("transfer-encoding", "chunked")), frame("0\r\n\r\n" + smuggled), refused, ""},
		{"transfer-encoding: identity", rule, rawHead("POST", "/case", field("transfer-encoding", "identity")), frame("body"), refused, ""},
		{"transfer-encoding beside content-length", rule, rawHead("POST", "/case", field("content-length", "4"), field("transfer-encoding", "chunked")), frame("0\r\n\r\n"), refused, ""},
		plain("two cookies", "RFC 9114 §4.2.1", forwarded, field("cookie", "a=b"), field("cookie", "c=d")),
		plain("expect of something unknown", "RFC 9110 §10.1.1", free, field("expect", "smuggling")),
	}
}

// lengthCases are bodies with announced lengths.
func lengthCases() []smuggledCase {
	const rule = "RFC 9114 §4.1.2"
	post := func(name string, want verdict, frames []byte, body string, lengths ...string) smuggledCase {
		fields := rawHead("POST", "/case")
		for _, length := range lengths {
			fields = append(fields, field("content-length", length))
		}
		return smuggledCase{name, rule, fields, frames, want, body}
	}
	return []smuggledCase{
		post("content-length of the body", forwarded, frame("body"), "body", "4"),
		post("no content-length", forwarded, frame("body"), "body"),
		post("body that is a request", forwarded, frame(smuggled), smuggled),
		post("body that is chunks", forwarded, frame("4\r\nbody\r\n0\r\n\r\n"), "4\r\nbody\r\n0\r\n\r\n"),
		post("content-length of 0 with a body", cut, frame(smuggled), "", "0"),
		post("content-length below the body", cut, frame("body"+smuggled), "body", "4"),
		post("content-length above the body", refused, frame("body"), "", "5"),
		post("content-length above an absent body", refused, nil, "", "1"),
		post("content-length below two frames", cut, wire.Join(frame("body"), frame(smuggled)), "body", "4"),
		post("two content-lengths that differ", refused, frame("body"), "", "4", "5"),
		post("two content-lengths, the second right", refused, frame("body"), "", "5", "4"),
		post("two content-lengths that are equal", free, frame("body"), "body", "4", "4"),
		post("content-length with a list", free, frame("body"), "body", "4, 4"),
		post("content-length with a list that differs", refused, frame("body"), "", "4, 5"),
		post("content-length with a plus", refused, frame("body"), "", "+4"),
		post("content-length with a minus", refused, frame("body"), "", "-4"),
		post("content-length in hexadecimal", refused, frame("body"), "", "0x4"),
		post("content-length with a space inside", refused, frame("body"), "", "4 4"),
		post("content-length with an underscore", refused, frame("body"), "", "0_4"),
		post("content-length that is empty", refused, frame("body"), "", ""),
		post("content-length with a fraction", refused, frame("body"), "", "4.0"),
		post("content-length of 2^64 and 4", refused, frame("body"), "", "18446744073709551620"),
		post("content-length with zeros before", free, frame("body"), "body", "0004"),
		{"GET with a body", rule, rawHead("GET", "/case", field("content-length", "4")), frame("body"), free, "body"},
		{"GET with a body of unknown length", rule, rawHead("GET", "/case"), frame(smuggled), free, smuggled},
		{"HEAD with a body that is a request", rule, rawHead("HEAD", "/case"), frame(smuggled), free, smuggled},
	}
}

// pseudoCases are pseudo-headers that are missing, come twice or late, or contradict others.
func pseudoCases() []smuggledCase {
	const rule = "RFC 9114 §4.3, §4.3.1"
	with := func(name string, want verdict, fields ...wire.Field) smuggledCase {
		return smuggledCase{name: name, rule: rule, fields: fields, want: want}
	}
	method, scheme, authority, path := field(":method", "GET"), field(":scheme", "https"), field(":authority", "HOST"), field(":path", "/case")
	return []smuggledCase{
		with("no :method", refused, scheme, authority, path),
		with("no :scheme", refused, method, authority, path),
		with("no :path", refused, method, scheme, authority),
		with("neither :authority nor host", refused, method, scheme, path),
		with("host instead of :authority", forwarded, method, scheme, path, field("host", "HOST")),
		with("host and :authority that are equal", forwarded, method, scheme, authority, path, field("host", "HOST")),
		with("host and :authority that differ", refused, method, scheme, authority, path, field("host", "plain.test")),
		with("two hosts", refused, method, scheme, authority, path, field("host", "HOST"), field("host", "plain.test")),
		with("empty :authority", refused, method, scheme, field(":authority", ""), path),
		with("empty :authority and a host", free, method, scheme, field(":authority", ""), path, field("host", "HOST")),
		with(":authority with user information", refused, method, scheme, field(":authority", "user@HOST"), path),
		with(":authority with a path", refused, method, scheme, field(":authority", "HOST/x"), path),
		with(":authority with a space", refused, method, scheme, field(":authority", "HOST x"), path),
		with(":authority with CR LF", refused, method, scheme, field(":authority", "HOST\r\nsmuggled: 1"), path),
		with("second :method", refused, method, field(":method", "POST"), scheme, authority, path),
		with("second :path", refused, method, scheme, authority, path, field(":path", "/other")),
		with("second :authority", refused, method, scheme, authority, field(":authority", "plain.test"), path),
		with("second :scheme", refused, method, scheme, field(":scheme", "http"), authority, path),
		with(":path after a header", refused, method, scheme, authority, field("a", "b"), path),
		with(":authority after a header", refused, method, scheme, path, field("a", "b"), authority),
		with(":status", refused, method, scheme, authority, path, field(":status", "200")),
		with("unknown pseudo-header", refused, method, scheme, authority, path, field(":smuggled", "1")),
		with(":protocol without CONNECT", refused, method, field(":protocol", "websocket"), scheme, authority, path),
		with(":method with a space", refused, field(":method", "GET /smuggled HTTP/1.1"), scheme, authority, path),
		with(":method with CR LF", refused, field(":method", "GET / HTTP/1.1\r\nHost: x\r\n\r\nGET"), scheme, authority, path),
		with("empty :method", refused, field(":method", ""), scheme, authority, path),
		with(":scheme of another kind", free, method, field(":scheme", "ftp"), authority, path),
		with(":scheme with CR LF", refused, method, field(":scheme", "https\r\nsmuggled: 1"), authority, path),
		with("CONNECT with :path", refused, field(":method", "CONNECT"), scheme, authority, path),
		with("CONNECT of an authority", refused, field(":method", "CONNECT"), field(":authority", "HOST:443")),
		with("CONNECT of an unknown :protocol", refused, field(":method", "CONNECT"), field(":protocol", "smuggling"), scheme, authority, path),
	}
}

// pathCases are values of :path.
func pathCases() []smuggledCase {
	var all []smuggledCase
	for _, one := range []struct {
		name, path string
		want       verdict
	}{
		{"empty", "", refused}, {"without a slash", "case", refused}, {"of an absolute URI", "https://HOST/case", refused},
		{"with a space", "/case /smuggled", refused}, {"with a version", "/case HTTP/1.1", refused},
		{"with CR LF", "/case HTTP/1.1\r\nsmuggled: 1", refused}, {"with LF", "/case\nx", refused}, {"with NUL", "/case\x00", refused},
		{"with a tab", "/case\tx", refused}, {"with a fragment", "/case#smuggled", free}, {"of a question mark", "?x=1", refused},
		{"of an asterisk", "*", refused}, {"with a byte above 0x7f", "/case\xff", free}, {"with two slashes", "//case", free},
		{"with encoded CR LF", "/case%0d%0asmuggled:%201", free}, {"with a query", "/case?x=y", forwarded},
	} {
		all = append(all, smuggledCase{name: ":path " + one.name, rule: "RFC 9114 §4.3.1", fields: rawHead("GET", one.path), want: one.want})
	}
	return append(all, smuggledCase{name: ":path of an asterisk with OPTIONS", rule: "RFC 9114 §4.3.1", fields: rawHead("OPTIONS", "*"), want: free})
}

// trailerCases are trailers that would change the framing, or that are malformed.
func trailerCases() []smuggledCase {
	const rule = "RFC 9114 §4.1, RFC 9110 §6.5.1"
	post := func(name string, want verdict, trailers ...wire.Field) smuggledCase {
		return smuggledCase{"trailer " + name, rule, rawHead("POST", "/case", field("te", "trailers")),
			wire.Join(frame("body"), wire.Frame(wire.Headers, wire.Fields(trailers...))), want, "body"}
	}
	return []smuggledCase{
		post("that is right", forwarded, field("x-trailer", "1")),
		post("in upper case", refused, field("X-Trailer", "1")),
		post("with CR LF", refused, field("x-trailer", "1\r\n\r\n"+smuggled)),
		post("with a pseudo-header", refused, field(":path", "/smuggled")),
		post("transfer-encoding", refused, field("transfer-encoding", "chunked")),
		post("connection", refused, field("connection", "close")),
		post("content-length", free, field("content-length", "100")),
		post("host", free, field("host", "plain.test")),
	}
}
