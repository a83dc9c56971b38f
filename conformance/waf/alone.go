package main

import (
	"fmt"
	"net/http"
	"slices"

	"github.com/corazawaf/coraza/v3/types"

	"fairway.dev/waf/audit"
	"fairway.dev/waf/configuration"
)

const (
	clientAddress = "127.0.0.1"
	clientPort    = 40000
	serverPort    = 80
)

// directives are those that the Core Rule Set's tests are written for, a rule that lets the requests of the tests of responses reach their
// endpoint in the mode On too, and one that logs the id of each test.
const directives = `
SecResponseBodyMimeType text/plain
SecAction "id:900005,phase:1,nolog,pass,ctl:ruleRemoveById=910000,\
  setvar:tx.blocking_paranoia_level=4,setvar:tx.crs_validate_utf8_encoding=1,setvar:tx.arg_name_length=100,setvar:tx.arg_length=400,\
  setvar:tx.total_arg_length=64000,setvar:tx.max_num_args=255,setvar:tx.max_file_size=64100,setvar:tx.combined_file_sizes=65535"
SecRule REQUEST_HEADERS:` + marker + ` "@rx ^crs-9[5-8]" \
  "id:900006,phase:1,pass,t:none,nolog,setvar:tx.inbound_anomaly_score_threshold=100000"
SecRule REQUEST_HEADERS:` + marker + ` "@rx ^[a-z0-9-]+$" "id:999001,phase:1,pass,t:none,log,msg:'conformance %{MATCHED_VAR}'"
`

// verdict is the WAF's decision about a request.
type verdict struct {
	Status      int   `json:"status"`
	Interrupted bool  `json:"interrupted"`
	Rules       []int `json:"rules"` // those that log, sorted
}

// difference says in which way another verdict is not the same; empty if it is.
func (v verdict) difference(other verdict) string {
	switch {
	case v.Interrupted != other.Interrupted:
		return fmt.Sprintf("interrupted %t instead of %t (status %d, rules %v instead of %v)", other.Interrupted, v.Interrupted, other.Status,
			other.Rules, v.Rules)
	case !slices.Equal(v.Rules, other.Rules):
		return fmt.Sprintf("rules missing %v, additional %v", without(v.Rules, other.Rules), without(other.Rules, v.Rules))
	case v.Status != other.Status:
		return fmt.Sprintf("status %d instead of %d", other.Status, v.Status)
	}
	return ""
}

func without(list, others []int) []int {
	rest := slices.Clone(others)
	left := []int{}
	for _, each := range list {
		if at := slices.Index(rest, each); at >= 0 {
			rest = slices.Delete(rest, at, at+1)
		} else {
			left = append(left, each)
		}
	}
	return left
}

// alone runs a request through Coraza in this process, as Coraza's own middleware does.
func alone(waf *configuration.WAF, m *message) (verdict, error) {
	tx := waf.NewTransaction()
	defer tx.Close()
	v := verdict{}
	in, err := examine(tx, m, &v)
	if err != nil {
		return v, err
	}
	tx.ProcessLogging()
	if in != nil {
		v.Interrupted, v.Status = true, http.StatusForbidden
		if in.Action == "deny" && in.Status != 0 {
			v.Status = in.Status
		}
	}
	for _, rule := range tx.MatchedRules() {
		if audit.Logs(rule) {
			v.Rules = append(v.Rules, rule.Rule().ID())
		}
	}
	slices.Sort(v.Rules)
	return v, nil
}

func examine(tx types.Transaction, m *message, v *verdict) (*types.Interruption, error) {
	tx.ProcessConnection(clientAddress, clientPort, "", serverPort)
	tx.ProcessURI(m.Target, m.Method, m.Protocol)
	for _, each := range m.Headers {
		tx.AddRequestHeader(each.Name, each.Value)
	}
	host, _ := m.first("host")
	tx.SetServerName(host)
	if in := tx.ProcessRequestHeaders(); in != nil {
		return in, nil
	}
	if tx.IsRequestBodyAccessible() && len(m.Body) > 0 {
		if in, _, err := tx.WriteRequestBody(m.Body); in != nil || err != nil {
			return in, err
		}
	}
	if in, err := tx.ProcessRequestBody(); in != nil || err != nil {
		return in, err
	}
	answer := respond(m.Method, m.Target, m.Body)
	v.Status = answer.Status
	for _, each := range answer.Headers {
		tx.AddResponseHeader(each.Name, each.Value)
	}
	if in := tx.ProcessResponseHeaders(answer.Status, m.Protocol); in != nil {
		return in, nil
	}
	if tx.IsResponseBodyAccessible() && tx.IsResponseBodyProcessable() && len(answer.Body) > 0 {
		if in, _, err := tx.WriteResponseBody(answer.Body); in != nil || err != nil {
			return in, err
		}
	}
	return tx.ProcessResponseBody()
}
