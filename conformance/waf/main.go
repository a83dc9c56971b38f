// Command waf-conformance runs the Core Rule Set's regression tests through Coraza alone and through fairway-waf, and compares the verdicts:
// status, interruption and the rules that matched.
package main

import (
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"strings"
	"time"

	"fairway.dev/waf/configuration"
)

// limits are the defaults of fairway-waf.
var limits = configuration.Limits{RequestBody: 13107200, ResponseBody: 1048576}

// auditPatience is how long the audit log may be silent before its missing lines are missed.
const auditPatience = 10 * time.Second

type options struct {
	direct, target, backend, auditLog string
	mode, http, only, out, revision   string
	printDirectives                   bool
}

func main() {
	o := options{}
	flag.StringVar(&o.direct, "direct", "", "ask fairway-waf at this address (ADDRESS, or unix:PATH) by ext_proc, without a proxy")
	flag.StringVar(&o.target, "target", "", "send to http://HOST:PORT, a proxy that asks fairway-waf and has -backend as its endpoint")
	flag.StringVar(&o.backend, "backend", "127.0.0.1:9080", "where the endpoint of -target listens")
	flag.StringVar(&o.auditLog, "audit-log", "", "the file that fairway-waf writes its audit log to")
	flag.StringVar(&o.mode, "mode", "both", "On, DetectionOnly or both; with -target, the mode that is configured there")
	flag.StringVar(&o.http, "http", "both", "1.1, 2 or both")
	flag.StringVar(&o.only, "only", "", "only the tests whose id, RULE-TEST, matches this expression")
	flag.StringVar(&o.out, "out", "", "where the results are written as JSON")
	flag.StringVar(&o.revision, "revision", "unknown", "what the results say about where they come from")
	flag.BoolVar(&o.printDirectives, "print-directives", false, "print the directives that -target has to be configured with, and end")
	flag.Parse()
	if o.printDirectives {
		fmt.Print(directives)
		return
	}
	different, err := o.run()
	if err != nil {
		fmt.Fprintln(os.Stderr, "waf-conformance:", err)
		os.Exit(2)
	}
	if different > 0 {
		os.Exit(1)
	}
}

// sender sends a test in one way, and returns the status that a client sees.
type sender func(m *message, raw []byte, id string, mode configuration.Mode) (int, error)

func (o *options) run() (int, error) {
	if (o.direct == "") == (o.target == "") || o.auditLog == "" {
		return 0, errors.New("one of -direct and -target is needed, and -audit-log")
	}
	filter, err := regexp.Compile(o.only)
	if err != nil {
		return 0, err
	}
	cases, err := loadCases(filter)
	if err != nil {
		return 0, err
	}
	log, err := openAuditLog(o.auditLog)
	if err != nil {
		return 0, err
	}
	senders, path, err := o.senders()
	if err != nil {
		return 0, err
	}
	modes := []configuration.Mode{configuration.DetectionOnly, configuration.On}
	if o.mode != "both" {
		mode, err := configuration.ParseMode(o.mode)
		if err != nil {
			return 0, err
		}
		modes = []configuration.Mode{mode}
	} else if o.target != "" {
		return 0, errors.New("-target needs the -mode that is configured there")
	}
	all := newResults(o.revision)
	for _, mode := range modes {
		waf, err := configuration.Compile(configuration.Configuration{Mode: mode, CoreRuleSet: true, Directives: directives}, limits)
		if err != nil {
			return 0, err
		}
		for _, version := range []string{"1.1", "2"} {
			if o.http != "both" && o.http != version {
				continue
			}
			r := &run{Path: path, HTTP: version, Mode: string(mode), Different: []note{}, Refused: []note{}, NotSayable: []note{}, Unexpected: []string{}}
			if err := r.runCases(cases, waf, mode, senders[version], log); err != nil {
				return 0, err
			}
			all.Runs = append(all.Runs, r)
		}
	}
	all.table(os.Stdout)
	if o.out != "" {
		if err := all.write(o.out); err != nil {
			return 0, err
		}
	}
	return all.different(), nil
}

func (o *options) senders() (map[string]sender, string, error) {
	if o.direct != "" {
		waf, err := dialDirect(o.direct)
		if err != nil {
			return nil, "", err
		}
		send := func(m *message, _ []byte, id string, mode configuration.Mode) (int, error) {
			return waf.send(m, id, mode)
		}
		return map[string]sender{"1.1": send, "2": send}, "direct", nil
	}
	target, err := url.Parse(o.target)
	if err != nil || target.Scheme != "http" || target.Port() == "" {
		return nil, "", errors.New("-target is http://HOST:PORT")
	}
	listener, err := net.Listen("tcp", o.backend)
	if err != nil {
		return nil, "", err
	}
	endpoint := &http.Server{Handler: http.HandlerFunc(backend), ReadHeaderTimeout: exchangeTimeout}
	go func() { _ = endpoint.Serve(listener) }()
	return map[string]sender{
		"1.1": func(m *message, raw []byte, _ string, _ configuration.Mode) (int, error) {
			method := ""
			if m != nil {
				method = m.Method
			}
			return sendHTTP1(target.Host, raw, method)
		},
		"2": func(m *message, _ []byte, _ string, _ configuration.Mode) (int, error) {
			return sendHTTP2(target.Host, m)
		},
	}, "fairway", nil
}

// sent is a test that waits for its line in the audit log.
type sent struct {
	testCase
	id     string
	alone  *verdict // nil where the bytes are no request
	status int
	err    error
	reason string // why they are none
}

func (r *run) runCases(cases []testCase, waf *configuration.WAF, mode configuration.Mode, send sender, log *auditLog) error {
	var waiting []sent
	var ids []string
	for _, c := range cases {
		r.Total++
		// The id is the value of a header, which rules see: letters, digits and hyphens are all that the strictest of them accept.
		s := sent{testCase: c, id: fmt.Sprintf("crs-%s-%s-http%c", c.ID, strings.ToLower(string(mode)), r.HTTP[0])}
		raw := mark(c.Raw, s.id)
		m, err := parse(raw)
		if err == nil && r.HTTP == "2" {
			m, err = m.asHTTP2()
		}
		if err != nil {
			if r.HTTP == "2" || r.Path == "direct" {
				r.NotSayable = append(r.NotSayable, note{c.ID, err.Error()})
				continue
			}
			s.reason, m = err.Error(), nil
		} else {
			v, err := alone(waf, m)
			if err != nil {
				return fmt.Errorf("%s: Coraza alone: %w", c.ID, err)
			}
			s.alone = &v
			r.expect(c, v)
			ids = append(ids, s.id)
		}
		s.status, s.err = send(m, raw, s.id, mode)
		waiting = append(waiting, s)
		if len(waiting)%200 == 0 {
			if _, err := log.read(); err != nil {
				return err
			}
		}
	}
	if err := log.wait(ids, auditPatience); err != nil {
		return err
	}
	for _, s := range waiting {
		r.checkVerdict(s, log)
	}
	return nil
}

func (r *run) checkVerdict(s sent, log *auditLog) {
	seen, asked := log.verdict(s.id, s.status)
	switch {
	case s.err != nil && (asked || s.alone != nil && s.status == 0 && r.Path == "direct"):
		r.Different = append(r.Different, note{s.ID, "the exchange failed: " + s.err.Error()})
	case !asked && s.alone == nil:
		r.Refused = append(r.Refused, note{s.ID, fmt.Sprintf("status %d; not HTTP: %s", s.status, s.reason)})
	case !asked && (s.err != nil || s.status == 400 || s.status == 405 || s.status == 414 || s.status == 431 || s.status == 501 || s.status == 505):
		reason := fmt.Sprintf("status %d", s.status)
		if s.err != nil {
			reason = s.err.Error()
		}
		r.Refused = append(r.Refused, note{s.ID, reason})
	case !asked:
		r.Different = append(r.Different, note{s.ID, fmt.Sprintf("status %d, and no line in the audit log", s.status)})
	case s.alone == nil:
		r.Different = append(r.Different, note{s.ID, fmt.Sprintf("passed to the WAF with status %d; not HTTP: %s", s.status, s.reason)})
	default:
		if reason := s.alone.difference(seen); reason != "" {
			r.Different = append(r.Different, note{s.ID, reason})
			return
		}
		r.Same++
	}
}
