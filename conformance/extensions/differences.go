package main

// This file owns where a peer is known to do something else than this proof expects, and why the proof expects what it does. Each was
// seen with the version that README.md names. Hangs, torn bodies and crashes are counted all the same.

import "regexp"

// difference is a class of cases that a peer is known to handle otherwise.
type difference struct {
	peer string
	// names matches PART/NAME of cases, problems all that was found there.
	names, problems string
	why             string
}

// anything matches every check, for cases in which one fault makes all checks fail.
const anything = "."

var differences = []difference{
	{"envoy", `^modes/.*/early/`, `no 103$`, "drops interim responses other than 100, such as 103, which RFC 8297 requires to be forwarded"},
	{"envoy", `^changes/.*(request-headers default|response-headers append)`, `X-Keep|X-Two`,
		"`ADD_IF_ABSENT` replaces headers: ext_proc reads only the older field `append`"},
	{"envoy", `^changes/c-(buffered|override)/.*-body (body|clear|size|suffix)`, anything,
		"responds 500 for a changed buffered body unless the service sets `content-length`; expected: the proxy computes it"},
	{"envoy", `^changes/.*request-headers set (connection|transfer-encoding|upgrade|keep-alive|proxy-connection|te) `, anything,
		"sends hop-by-hop headers that the service sets, even `transfer-encoding` with `content-length`; expected: they are removed"},
	{"envoy", `^authorization/.*/set (connection|transfer-encoding|upgrade|keep-alive|proxy-connection|te) `, anything,
		"ext_authz: sends hop-by-hop headers that the service sets; expected: they are removed"},
	{"envoy", `^(changes|authorization)/.*set content-length \d+`, anything,
		"sends a wrong `content-length` of the service, so the endpoint takes a part of the body for the whole and the rest for the next request; expected: the proxy computes it"},
	{"envoy", `^(changes|authorization)/`, `method "[a-z]{100,}`, "the request after one with a wrong `content-length` begins with the rest of that body"},
	{"envoy", `^changes/.*immediate 700 `, `status 700`, "sends the status 700 to the client; RFC 9110 §15: statuses end at 599"},
	{"envoy", `^changes/.*large 10485760`, anything, "sends a header of 10 MiB from the service to the endpoint, which refuses it"},
	{"envoy", `^(authorization/whole/.*/h2|changes/c-small-(buffered|partial)/h2)/`, anything,
		"over HTTP/2, the limit of a buffered body is a stream window; expected: the exact limit"},
	{"envoy", `^failures/FullDuplexStreamed/.*: ends the stream`, anything,
		"if a stream ends with status 0 while the service has parts of a full duplex body, the rest looks like a whole body; expected: a failure"},
	{"envoy", `^failures/FullDuplexStreamed/.*: never answers`, anything,
		"full duplex bodies have no message timeout: with a silent service, an exchange waits until the client leaves"},
	{"envoy", `^liars/without-status/open/`, anything,
		"crashes (null pointer) when a stream ends without `grpc-status` after a message, with `failure_mode_allow`"},
	{"envoy", `^liars/short-frame/closed/`, anything, "a truncated message followed by status 0 allows; expected: a failure"},
	{"envoy", `^authorization/.*/both`, anything, "a decision with status 0 and a `denied_response` allows; expected: an invalid decision"},
	{"envoy", `^authorization/.*/size 10485760`, anything, "accepts a decision of 10 MiB and sends its header to the client, which refuses it"},
	{"envoy", `^(liars|authorization|changes)/memory$`, anything, "memory grows by more than 64 MiB over a part: with headers of 10 MiB, and after each start"},
}

// differenceOf is why a peer is not as expected in a case, if that is known.
func differenceOf(peer string, one result) string {
	for _, known := range differences {
		if known.peer != peer || !regexp.MustCompile(known.names).MatchString(one.Part+"/"+one.Name) {
			continue
		}
		isExplained, problems := true, regexp.MustCompile(known.problems)
		for _, problem := range one.Problems {
			isExplained = isExplained && problems.MatchString(problem)
		}
		if isExplained {
			return known.why
		}
	}
	return ""
}
