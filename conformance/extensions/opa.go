package main

// This file owns the part `opa`: the example that OPA's plugin for Envoy documents, with its policy and its requests.

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"

	"fairway.dev/conformance/extensions/client"
	"fairway.dev/conformance/extensions/proxy"
	"fairway.dev/conformance/extensions/wait"
)

const (
	// opaTimeout is the timeout of a question.
	opaTimeout = 2 * time.Second
	// opaBody holds the bodies of the example, which its policy reads.
	opaBody = 8 << 10
	// opaReady bounds how long OPA may take to serve.
	opaReady = 30 * time.Second
)

// policyAgent is an OPA that runs.
type policyAgent struct {
	command *exec.Cmd
	done    chan struct{}
	// tokens are those of the example, by the names of their variables.
	tokens map[string]string
}

// startPolicyAgent starts OPA with the policy of the plugin's quick start, as it stands in the plugin's module.
func startPolicyAgent(chosen options, directory string, port int) (*policyAgent, error) {
	manifest, err := os.ReadFile(filepath.Join(chosen.opaModule, "quick_start.yaml"))
	if err != nil {
		return nil, err
	}
	policy, err := blockOf(string(manifest), "policy.rego: |")
	if err != nil {
		return nil, err
	}
	readme, err := os.ReadFile(filepath.Join(chosen.opaModule, "README.md"))
	if err != nil {
		return nil, err
	}
	agent := &policyAgent{tokens: map[string]string{}, done: make(chan struct{})}
	for _, found := range regexp.MustCompile(`export (\w+_TOKEN)="([^"]+)"`).FindAllStringSubmatch(string(readme), -1) {
		agent.tokens[found[1]] = found[2]
	}
	rego := filepath.Join(directory, "policy.rego")
	if err := os.WriteFile(rego, []byte(policy), 0o644); err != nil {
		return nil, err
	}
	log, err := os.Create(filepath.Join(directory, "opa.log"))
	if err != nil {
		return nil, err
	}
	defer log.Close()
	diagnostic := fmt.Sprintf("127.0.0.1:%d", wait.FreePort())
	agent.command = exec.Command(chosen.opa, "run", "--server", "--v0-compatible", "--addr", fmt.Sprintf("127.0.0.1:%d", wait.FreePort()), "--diagnostic-addr", diagnostic,
		"--disable-telemetry", "--set", fmt.Sprintf("plugins.envoy_ext_authz_grpc.addr=127.0.0.1:%d", port),
		"--set", "plugins.envoy_ext_authz_grpc.path=envoy/authz/allow", rego)
	agent.command.Stdout, agent.command.Stderr = log, log
	agent.command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := agent.command.Start(); err != nil {
		return nil, err
	}
	go func() {
		_ = agent.command.Wait()
		close(agent.done)
	}()
	isReady := wait.Until(opaReady, func() bool {
		response, err := http.Get("http://" + diagnostic + "/health?plugins")
		if err != nil {
			return false
		}
		response.Body.Close()
		return response.StatusCode == http.StatusOK
	})
	if !isReady {
		agent.stop()
		return nil, fmt.Errorf("OPA does not become ready; see %s", log.Name())
	}
	return agent, nil
}

func (agent *policyAgent) stop() {
	_ = agent.command.Process.Kill()
	<-agent.done
}

// blockOf is a block of text in YAML, without its indentation.
func blockOf(document, key string) (string, error) {
	_, rest, isThere := strings.Cut(document, key+"\n")
	if !isThere {
		return "", fmt.Errorf("the quick start of OPA's plugin has no %s", key)
	}
	var block []string
	indent := len(rest) - len(strings.TrimLeft(rest, " "))
	for line := range strings.Lines(rest) {
		switch blank := strings.TrimSpace(line) == ""; {
		case blank:
			block = append(block, "\n")
		case len(line)-len(strings.TrimLeft(line, " ")) < indent:
			return strings.Join(block, ""), nil
		default:
			block = append(block, line[indent:])
		}
	}
	return strings.Join(block, ""), nil
}

func policyRoutes() []proxy.Route {
	var routes []proxy.Route
	for _, isHTTP2 := range []bool{false, true} {
		routes = append(routes, proxy.Route{Name: "o-" + protocol(isHTTP2), HTTP2: isHTTP2,
			Auth: &proxy.Auth{Service: opa, MaxBody: opaBody, AllowPartial: true, Timeout: opaTimeout}})
	}
	return routes
}

// documented are the requests of the plugin's quick start with the results that it describes, and those without a valid token.
var documented = []struct {
	name, token, method, path, body string
	status                          int
}{
	{"Alice gets employees", "ALICE_TOKEN", http.MethodGet, "/people", "", 200},
	{"Alice cannot create one", "ALICE_TOKEN", http.MethodPost, "/people", `{"firstname":"Charlie", "lastname":"OPA"}`, 403},
	{"Bob gets employees", "BOB_TOKEN", http.MethodGet, "/people", "", 200},
	{"Bob creates one", "BOB_TOKEN", http.MethodPost, "/people", `{"firstname":"Charlie", "lastname":"Opa"}`, 200},
	{"Bob cannot create one with his own name", "BOB_TOKEN", http.MethodPost, "/people", `{"firstname":"Bob", "lastname":"Rego"}`, 403},
	{"another path", "BOB_TOKEN", http.MethodGet, "/elsewhere", "", 403},
	{"no token", "", http.MethodGet, "/people", "", 403},
	{"a token that is none", "none", http.MethodGet, "/people", "", 403},
}

func policies(lab *laboratory) error {
	if lab.opa == nil {
		fmt.Println("opa: left out, there is no -opa")
		return nil
	}
	for _, route := range policyRoutes() {
		for _, one := range documented {
			name := protocol(route.HTTP2) + "/" + one.name
			if lab.skips(name) {
				continue
			}
			lab.cases++
			id := fmt.Sprintf("case-%d", lab.cases)
			header := http.Header{"X-Case": {id}, "Content-Type": {"application/json"}}
			if one.token != "" {
				token := lab.opa.tokens[one.token]
				if token == "" {
					token = "not.a.token"
				}
				header.Set("Authorization", "Bearer "+token)
			}
			response := client.Do(client.Request{Address: lab.proxy.Address(route), Host: route.Host(), Method: one.method, Path: one.path,
				Header: header, Body: []byte(one.body), HTTP2: route.HTTP2, Deadline: deadline})
			found := &outcome{exchange: exchange{name: name, route: route}, Response: response, id: id}
			found.endpoint = lab.backend.Of(id)
			problems := problem(response.Kind() != "whole" || response.Status != one.status, "status %d and not %d", response.Status, one.status)
			if one.status == http.StatusOK {
				problems = append(problems, problem(string(found.endpoint.Body) != one.body, "the endpoint got %q", found.endpoint.Body)...)
			} else {
				problems = append(problems, problem(found.endpoint.Count > 0, "the endpoint got the request")...)
			}
			lab.add("opa", found, problems, nil)
		}
	}
	return nil
}
