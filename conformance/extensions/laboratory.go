package main

// This file owns what all parts use: the endpoint, the services, the proxy, and how a case is run and looked at.

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"fairway.dev/conformance/extensions/authorizer"
	"fairway.dev/conformance/extensions/backend"
	"fairway.dev/conformance/extensions/client"
	"fairway.dev/conformance/extensions/liar"
	"fairway.dev/conformance/extensions/processor"
	"fairway.dev/conformance/extensions/proxy"
	"fairway.dev/conformance/extensions/wait"
)

const (
	// deadline bounds a case: one that takes longer hangs.
	deadline = 10 * time.Second
	// settleTimeout bounds how long endpoint and service may take to see the end of a case.
	settleTimeout = 5 * time.Second
	// script is the Service of the scripted ext_proc, and decision that of the scripted ext_authz.
	script, decision, opa = "script", "decision", "opa"
	// crashTime is how long a crashing proxy may take to end.
	crashTime = 300 * time.Millisecond
	// maxGrowth is how much more memory a proxy may have after a part than before.
	maxGrowth = 64 << 20
)

// laboratory is everything around the proxy.
type laboratory struct {
	chosen     options
	directory  string
	backend    *backend.Server
	processor  *processor.Server
	authorizer *authorizer.Server
	opa        *policyAgent
	proxy      proxy.Proxy
	start      func() (proxy.Proxy, error)
	results    *results
	cases      int
}

func newLaboratory(chosen options) (*laboratory, error) {
	directory, err := os.MkdirTemp("", "fairway-extensions-")
	if err != nil {
		return nil, err
	}
	lab := &laboratory{chosen: chosen, directory: directory}
	if lab.backend, err = backend.Start(); err != nil {
		return nil, err
	}
	if lab.processor, err = processor.Start(); err != nil {
		return nil, err
	}
	if lab.authorizer, err = authorizer.Start(); err != nil {
		return nil, err
	}
	plan := proxy.Plan{Routes: allRoutes(), Backend: lab.backend.Port,
		Services: map[string]int{script: lab.processor.Port, decision: lab.authorizer.Port, opa: wait.FreePort()}}
	for _, kind := range liar.Kinds {
		if plan.Services[kind.Name], err = liar.Start(kind.Name); err != nil {
			return nil, err
		}
	}
	if chosen.opa != "" && chosen.has("opa") {
		if lab.opa, err = startPolicyAgent(chosen, directory, plan.Services[opa]); err != nil {
			return nil, err
		}
	}
	binary, start := chosen.fairway, proxy.StartFairway
	if chosen.peer == "envoy" {
		binary, start = chosen.envoy, proxy.StartEnvoy
	}
	if binary == "" {
		return nil, fmt.Errorf("no program to test; use -%s or %s", chosen.peer, strings.ToUpper(chosen.peer))
	}
	lab.start = func() (proxy.Proxy, error) { return start(binary, directory, plan) }
	lab.proxy, err = lab.start()
	return lab, err
}

// allRoutes are those of all parts.
func allRoutes() []proxy.Route {
	return slices.Concat(modeRoutes(), changeRoutes(), failureRoutes(), liarRoutes(), authorizationRoutes(), policyRoutes())
}

func (lab *laboratory) close() {
	lab.processor.Close()
	lab.authorizer.Close()
	lab.backend.Close()
	if lab.opa != nil {
		lab.opa.stop()
	}
	if lab.results != nil && lab.results.Unexpected == 0 && !lab.chosen.keepsLogs {
		_ = os.RemoveAll(lab.directory)
		return
	}
	fmt.Println("the logs of this run are in", lab.directory)
}

// measure runs a part, and looks at the memory of the proxy before and after it.
func (lab *laboratory) measure(name string, run func(*laboratory) error) error {
	before, _, err := lab.proxy.Memory()
	if err != nil {
		return err
	}
	began, unexpected, first := time.Now(), lab.results.Unexpected, len(lab.results.Cases)
	if err := run(lab); err != nil {
		return err
	}
	after, peak, err := lab.proxy.Memory()
	if err != nil {
		return err
	}
	if isOpen := func() bool { return lab.processor.Open() == 0 }; !wait.Until(settleTimeout, isOpen) {
		lab.results.add(result{Part: name, Name: "streams end with their exchanges",
			Problems: []string{fmt.Sprintf("%d streams to the service are still open", lab.processor.Open())}})
	}
	if after > before+maxGrowth {
		lab.results.add(result{Part: name, Name: "memory", Problems: []string{fmt.Sprintf("%d MiB before, %d MiB after", before>>20, after>>20)}})
	}
	found := part{Name: name, Cases: len(lab.results.Cases) - first, Unexpected: lab.results.Unexpected - unexpected,
		Seconds: time.Since(began).Seconds(), MemoryBefore: before, MemoryAfter: after, MemoryPeak: peak}
	for _, one := range lab.results.Cases[first:] {
		if one.Difference != "" {
			found.Differences++
		}
		if one.Kind == "hang" {
			found.Hangs++
		}
		if one.IsTorn {
			found.Torn++
		}
		if one.Kind == "crash" {
			found.Crashes++
		}
	}
	lab.results.Parts = append(lab.results.Parts, found)
	fmt.Printf("%s: %d cases, %d unexpected, %d hangs, %d torn bodies, %d crashes, %.0f s; memory %d MiB before, %d MiB after, %d MiB at most\n", name,
		found.Cases, found.Unexpected, found.Hangs, found.Torn, found.Crashes, found.Seconds, before>>20, after>>20, peak>>20)
	return nil
}

// exchange is a request, with the scripts of endpoint and service.
type exchange struct {
	route       proxy.Route
	name        string
	method      string
	path        string
	isHTTP2     bool
	script      string
	size, reply int
	// chunked sends both bodies without their lengths; trailers come after both.
	chunked, trailers bool
	early, slow       bool
	header            http.Header
	status            int
	forms             string
}

// outcome is what all sides saw.
type outcome struct {
	exchange
	*client.Response
	endpoint backend.Sight
	service  processor.Sight
	// id names it for endpoint and services.
	id string
	// hasCrashed says that the proxy ended.
	hasCrashed bool
}

// skips reports whether a case was not selected.
func (lab *laboratory) skips(name string) bool { return !strings.Contains(name, lab.chosen.match) }

// run sends a request, and waits until all sides have seen the end of it.
func (lab *laboratory) run(asked exchange) *outcome {
	lab.cases++
	id := fmt.Sprintf("case-%d", lab.cases)
	header := http.Header{backend.CaseHeader: {id}, backend.SizeHeader: {fmt.Sprint(asked.reply)}, "x-keep": {"kept"}, "user-agent": {"extensions"}}
	if asked.script != "" {
		header.Set(processor.ScriptHeader, asked.script)
	}
	forms := strings.Fields(asked.forms)
	for form, isAsked := range map[string]bool{"chunked": asked.chunked, "trailers": asked.trailers, "early": asked.early, "slow": asked.slow} {
		if isAsked {
			forms = append(forms, form)
		}
	}
	header.Set(backend.FormHeader, strings.Join(forms, " "))
	if asked.status != 0 {
		header.Set(backend.StatusHeader, fmt.Sprint(asked.status))
	}
	if extension := asked.route.Extension; extension != nil {
		var duplex []string
		if extension.Request.Body == proxy.FullDuplex {
			duplex = append(duplex, string(processor.RequestBody))
		}
		if extension.Response.Body == proxy.FullDuplex {
			duplex = append(duplex, string(processor.ResponseBody))
		}
		header.Set(processor.DuplexHeader, strings.Join(duplex, ","))
	}
	for name, values := range asked.header {
		header[name] = values
	}
	method, path := asked.method, asked.path
	if method == "" {
		method = http.MethodPost
	}
	if path == "" {
		path = "/some/path?query=1"
	}
	request := client.Request{Address: lab.proxy.Address(asked.route), Host: asked.route.Host(), Method: method, Path: path, Header: header,
		Body: backend.Text(asked.size), IsChunked: asked.chunked && asked.size > 0, IsSlow: asked.slow, HTTP2: asked.isHTTP2, Deadline: deadline}
	if asked.trailers && request.IsChunked {
		// Some servers take only trailers that were announced; the last two are what services add.
		request.Trailers = http.Header{requestTrailer: {trailerValue}, "X-Marked-Trailer": nil, "X-New": nil}
	}
	found := &outcome{exchange: asked, Response: client.Do(request), id: id}
	wait.Until(settleTimeout, func() bool { return lab.backend.Ended(id) })
	found.endpoint, found.service = lab.backend.Of(id), lab.processor.Of(id)
	lab.backend.Forget(id)
	lab.processor.Forget(id)
	found.hasCrashed = lab.revive(found.Kind() == "closed")
	return found
}

// revive starts the proxy again if it has ended, and says whether it had. One that has just lost a connection may be about to end.
func (lab *laboratory) revive(isSuspect bool) bool {
	if isSuspect {
		wait.Until(crashTime, lab.proxy.HasEnded)
	}
	if !lab.proxy.HasEnded() {
		return false
	}
	restarted, err := lab.start()
	if err != nil {
		fmt.Println("the proxy cannot be started again:", err)
		return true
	}
	lab.proxy = restarted
	return true
}

const (
	requestTrailer = "X-Request-Trailer"
	trailerValue   = "from the client"
)

// torn are bodies that were cut or changed, and look whole.
func (found *outcome) torn(requests, responses [][]byte) []string {
	var problems []string
	is := func(body []byte) func([]byte) bool {
		return func(other []byte) bool { return bytes.Equal(body, other) }
	}
	if found.endpoint.IsWhole && !slices.ContainsFunc(requests, is(found.endpoint.Body)) {
		problems = append(problems, fmt.Sprintf("TORN request: %d bytes came as a whole body", found.endpoint.Length))
	}
	if found.Kind() == "whole" && found.Header.Get("X-Backend") != "" && !slices.ContainsFunc(responses, is(found.Body)) {
		problems = append(problems, fmt.Sprintf("TORN response: %d bytes came as a whole body", len(found.Body)))
	}
	return problems
}

// original says whether the client got the response of the endpoint, with its whole body.
func (found *outcome) original() bool {
	return found.Kind() == "whole" && found.Status == http.StatusOK && found.Header.Get("X-Backend") != "" &&
		bytes.Equal(found.Body, backend.Text(found.reply))
}

// kind is the outcome in a word: "whole" (as the endpoint sent it), "changed", the status of a response of the proxy, "cut", "closed" or
// "hang".
func (found *outcome) kind() string {
	switch kind := found.Kind(); {
	case found.hasCrashed:
		return "crash"
	case kind != "whole":
		return kind
	case found.original():
		return "whole"
	case found.Header.Get("X-Immediate") != "":
		return "immediate"
	case found.Header.Get("X-Backend") != "":
		return "changed"
	}
	return fmt.Sprint(found.Status)
}

// add notes what became of a case.
func (lab *laboratory) add(part string, found *outcome, problems []string, torn []string) {
	if found.hasCrashed {
		problems = append(problems, "the proxy has crashed")
	}
	one := result{Part: part, Name: found.name, Kind: found.kind(), Status: found.Status, Took: found.Took.Seconds(),
		Problems: slices.Concat(torn, problems), IsTorn: len(torn) > 0}
	if len(one.Problems) > 0 {
		one.Detail = found.Response.String()
		if found.endpoint.Count > 0 {
			one.Detail += fmt.Sprintf("; endpoint: %d requests, whole %t, %d bytes %s", found.endpoint.Count, found.endpoint.IsWhole,
				found.endpoint.Length, found.endpoint.ReadError)
		}
		one.Detail += fmt.Sprintf("; service: %v", found.service.Order)
	}
	lab.results.add(one)
	if lab.chosen.verbose {
		fmt.Printf("%s/%s: %s in %.3f s\n", part, found.name, one.Kind, one.Took)
	}
}
