package audit

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/corazawaf/coraza/v3/types"
)

const (
	maxRuleIDs = 512 // listed by id
	maxRules   = 32  // described
	maxTags    = 16
	maxMatches = 4
	maxValue   = 128 // bytes of a matched value
	maxText    = 256
	maxPath    = 1024
)

// Entry is a line.
type Entry struct {
	Time          time.Time `json:"time"`
	ID            string    `json:"id"`
	Configuration string    `json:"configuration,omitempty"`
	Mode          string    `json:"mode"`
	Client        string    `json:"client"`
	Host          string    `json:"host"`
	Method        string    `json:"method"`
	Path          string    `json:"path"` // without the query
	Protocol      string    `json:"protocol"`
	Status        int       `json:"status,omitempty"` // what the client gets; absent where the exchange ended before
	Interrupted   bool      `json:"interrupted"`
	Interruption  *Decision `json:"interruption,omitempty"`
	Severity      string    `json:"severity,omitempty"` // the highest
	RuleIDs       []int     `json:"rule_ids"`
	Rules         []Rule    `json:"rules"`
	Truncated     bool      `json:"truncated,omitempty"` // whether there were more rules than are described
}

// Decision is what a rule did with the request, or would have done if the engine were on.
type Decision struct {
	Rule   int    `json:"rule,omitempty"` // absent where a body was too long
	Action string `json:"action"`
	Status int    `json:"status,omitempty"`
	Phase  string `json:"phase,omitempty"`
}

// Rule is one that matched.
type Rule struct {
	ID       int      `json:"id"`
	Phase    int      `json:"phase"`
	Message  string   `json:"message,omitempty"`
	Severity string   `json:"severity,omitempty"`
	Tags     []string `json:"tags,omitempty"`
	Data     string   `json:"data,omitempty"`
	Matches  []Match  `json:"matches,omitempty"`
}

// Match is a value that a rule matched.
type Match struct {
	Variable string `json:"variable"`
	Value    string `json:"value"`
}

// Describe fills in what matched, and is false if no rule that logs did.
func (e *Entry) Describe(matched []types.MatchedRule) bool {
	e.Path, e.Host, e.Method = Cut(e.Path, maxPath), Cut(e.Host, maxText), Cut(e.Method, maxText)
	e.RuleIDs, e.Rules = []int{}, []Rule{}
	highest := types.RuleSeverityUnset
	for _, rule := range matched {
		if !Logs(rule) {
			continue
		}
		if len(e.RuleIDs) == maxRuleIDs {
			e.Truncated = true
			break
		}
		e.RuleIDs = append(e.RuleIDs, rule.Rule().ID())
		if severity := rule.Rule().Severity(); severity != types.RuleSeverityUnset && (highest == types.RuleSeverityUnset || severity < highest) {
			highest = severity
		}
		if len(e.Rules) == maxRules {
			e.Truncated = true
			continue
		}
		e.Rules = append(e.Rules, describe(rule))
	}
	if highest != types.RuleSeverityUnset {
		e.Severity = highest.String()
	}
	return len(e.RuleIDs) > 0
}

// Logs tells whether a rule has the action `log`. Those of the Core Rule Set that only count have not.
func Logs(rule types.MatchedRule) bool {
	logging, ok := rule.(interface{ Log() bool })
	return !ok || logging.Log()
}

func describe(rule types.MatchedRule) Rule {
	metadata := rule.Rule()
	described := Rule{ID: metadata.ID(), Phase: int(metadata.Phase()), Message: rule.Message(), Data: rule.Data()}
	if metadata.Severity() != types.RuleSeverityUnset {
		described.Severity = metadata.Severity().String()
	}
	for _, tag := range metadata.Tags() {
		if len(described.Tags) == maxTags {
			break
		}
		described.Tags = append(described.Tags, Cut(tag, maxValue))
	}
	for _, match := range rule.MatchedDatas() {
		value, private := match.Value(), true
		name := match.Variable().Name()
		switch {
		case wholeBodies[name]:
			value = fmt.Sprintf("[%d bytes]", len(value))
		case isPrivate(name, match.Key()):
			value = "[redacted]"
		default:
			private = false
		}
		if private {
			// The rule's message may quote parts of it.
			described.Data = ""
			if match.Value() != "" {
				described.Message = strings.ReplaceAll(described.Message, match.Value(), "[redacted]")
			}
		}
		if len(described.Matches) == maxMatches || name == "UNKNOWN" {
			continue
		}
		if key := match.Key(); key != "" {
			name += ":" + Cut(key, 64)
		}
		described.Matches = append(described.Matches, Match{Variable: name, Value: Cut(value, maxValue)})
	}
	described.Message, described.Data = Cut(described.Message, maxText), Cut(described.Data, maxText)
	return described
}

var wholeBodies = map[string]bool{
	"REQUEST_BODY": true, "RESPONSE_BODY": true, "FILES_TMP_CONTENT": true, "XML": true, "REQUEST_XML": true, "RESPONSE_XML": true,
}

var privateHeaders = map[string]bool{"authorization": true, "proxy-authorization": true, "cookie": true, "set-cookie": true}

// isPrivate tells whether a variable has what may let someone else in.
func isPrivate(variable, key string) bool {
	key = strings.ToLower(key)
	switch variable {
	case "REQUEST_COOKIES":
		return true
	case "REQUEST_HEADERS", "RESPONSE_HEADERS":
		if privateHeaders[key] {
			return true
		}
	}
	for _, word := range []string{"passw", "secret", "token", "apikey", "api-key", "api_key", "credential"} {
		if strings.Contains(key, word) {
			return true
		}
	}
	return false
}

// Cut bounds a text, at the end of a character.
func Cut(s string, bytes int) string {
	if len(s) <= bytes {
		return s
	}
	for bytes > 0 && !utf8.RuneStart(s[bytes]) {
		bytes--
	}
	return s[:bytes] + "…"
}
