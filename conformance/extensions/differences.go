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

// anything is for cases in which one thing that went wrong makes all checks fail.
const anything = "."

var differences = []difference{
	{"envoy", `^modes/.*/early/`, `no 103$`, "103 is not forwarded: Envoy drops interim responses other than 100. RFC 8297 wants them forwarded"},
	{"envoy", `^changes/.*(request-headers default|response-headers append)`, `X-Keep|X-Two`,
		"`ADD_IF_ABSENT` replaces headers: ext_proc looks only at the older field `append`"},
	{"envoy", `^changes/c-(buffered|override)/.*-body (body|clear|size|suffix)`, anything,
		"500 for a buffered body that was changed, unless the service sets its `content-length`. Here, the proxy counts"},
	{"envoy", `^changes/.*request-headers set (connection|transfer-encoding|upgrade|keep-alive|proxy-connection|te) `, anything,
		"headers of a connection are sent as the service sets them, `transfer-encoding` beside `content-length` as well. Here they are left out"},
	{"envoy", `^authorization/.*/set (connection|transfer-encoding|upgrade|keep-alive|proxy-connection|te) `, anything,
		"ext_authz: headers of a connection are sent as the service sets them. Here they are left out"},
	{"envoy", `^(changes|authorization)/.*set content-length \d+`, anything,
		"a wrong `content-length` of the service is sent: the endpoint takes a part of the body for the whole, and the rest for the next request. Here the proxy counts"},
	{"envoy", `^(changes|authorization)/`, `method "[a-z]{100,}`, "the request after one with a wrong `content-length` begins with the rest of its body"},
	{"envoy", `^changes/.*immediate 700 `, `status 700`, "the status 700 is sent to the client. RFC 9110 §15: statuses end at 599"},
	{"envoy", `^changes/.*large 10485760`, anything, "a header of 10 MiB is taken from the service and sent to the endpoint, which refuses it"},
	{"envoy", `^(authorization/whole/.*/h2|changes/c-small-(buffered|partial)/h2)/`, anything,
		"over HTTP/2, the bound of a held body is the window of a stream: what is in it when the end comes is taken. The bound is exact here"},
	{"envoy", `^failures/FullDuplexStreamed/.*: ends the stream`, anything,
		"a stream that ends with status 0 while the service has pieces of a full duplex body: what is missing is left out, and the rest looks like a whole body. Here this is a failure"},
	{"envoy", `^failures/FullDuplexStreamed/.*: never answers`, anything,
		"full duplex bodies have no message timeout: an exchange whose service is silent waits until the client leaves"},
	{"envoy", `^liars/without-status/open/`, anything,
		"crashes (null pointer) when a stream ends without `grpc-status` after a message, with `failure_mode_allow`"},
	{"envoy", `^liars/short-frame/closed/`, anything, "a message that is cut off, and then status 0, is consent. Here it is a failure"},
	{"envoy", `^authorization/.*/both`, anything, "a decision with status 0 and a `denied_response` allows. Here it is no decision"},
	{"envoy", `^authorization/.*/size 10485760`, anything, "a decision of 10 MiB is taken, and its header sent to the client, which refuses it"},
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
