// Package configuration turns what an Ingress asks for into a compiled WAF, and keeps those that are in use.
//
// A configuration is Coraza's recommended one, the mode, the directives of the Ingress and the Core Rule Set, in this order. Rules cannot
// reach files, the network or other programs.
package configuration

import (
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"

	coreruleset "github.com/corazawaf/coraza-coreruleset/v4"
	"github.com/corazawaf/coraza/v3"
	"github.com/corazawaf/coraza/v3/experimental"
)

// MaxDirectives is how long the directives of a configuration may be, in bytes.
const MaxDirectives = 256 << 10

// Mode is the value of `SecRuleEngine`.
type Mode string

const (
	On            Mode = "On"
	DetectionOnly Mode = "DetectionOnly"
	Off           Mode = "Off"
)

// ParseMode reads a mode; letters may be large or small.
func ParseMode(s string) (Mode, error) {
	for _, mode := range []Mode{On, DetectionOnly, Off} {
		if strings.EqualFold(s, string(mode)) {
			return mode, nil
		}
	}
	return "", fmt.Errorf("mode %q is none of On, DetectionOnly and Off", cut(s, 32))
}

// Configuration is the input from which a WAF is compiled. Equal ones share a WAF.
type Configuration struct {
	Mode        Mode
	CoreRuleSet bool
	// Directives are those of `modsecurity-snippet`. They win over the recommended ones and come before the Core Rule Set.
	Directives string
}

// Limits are the longest bodies that a configuration may ask for, in bytes.
type Limits struct {
	RequestBody, ResponseBody int64
}

// WAF is a compiled configuration.
type WAF struct {
	coraza.WAF
	// Mode is the mode after all directives.
	Mode Mode
	// Blocking tells whether a request can be interrupted.
	Blocking bool
	// Audit tells whether matches are logged.
	Audit bool
	// RequestLimit and ResponseLimit are how much of a body rules see, in bytes.
	RequestLimit, ResponseLimit int64
	// PartialRequest and PartialResponse tell whether longer bodies pass with their first bytes examined. Otherwise they are refused.
	PartialRequest, PartialResponse bool
}

// Close frees what Coraza keeps for all transactions. Those that run are not affected.
func (w *WAF) Close() {
	if closer, ok := w.WAF.(experimental.WAFCloser); ok {
		_ = closer.Close()
	}
}

// Compile makes the WAF of a configuration. It takes a second with the Core Rule Set.
func Compile(c Configuration, limits Limits) (waf *WAF, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			waf, err = nil, fmt.Errorf("compiling it panicked: %s", cut(fmt.Sprint(cause), 256))
		}
	}()
	source, settings, err := compose(c, limits)
	if err != nil {
		return nil, err
	}
	mode, err := ParseMode(settings.engine)
	if err != nil {
		return nil, fmt.Errorf("SecRuleEngine: %w", err)
	}
	compiled, err := coraza.NewWAF(coraza.NewWAFConfig().WithRootFS(coreruleset.FS).WithDirectives(source))
	if err != nil {
		return nil, errors.New(cut(err.Error(), 512))
	}
	// Coraza does the same for a configuration that detects only.
	detects := mode == DetectionOnly
	return &WAF{
		WAF: compiled, Mode: mode, Audit: settings.audit,
		Blocking:       mode == On || settings.enablesEngine,
		RequestLimit:   settings.requestLimit,
		ResponseLimit:  settings.responseLimit,
		PartialRequest: settings.partialRequest || detects, PartialResponse: settings.partialResponse || detects,
	}, nil
}

// Text is the text that Coraza compiles for a configuration.
func Text(c Configuration, limits Limits) (string, error) {
	source, _, err := compose(c, limits)
	return source, err
}

func compose(c Configuration, limits Limits) (string, settings, error) {
	if len(c.Directives) > MaxDirectives {
		return "", settings{}, fmt.Errorf("the directives have %d bytes; at most %d are read", len(c.Directives), MaxDirectives)
	}
	users := text{ids: map[string]bool{}, defaultActions: map[string]bool{}}
	base, err := recommendedDirectives()
	if err != nil {
		return "", settings{}, err
	}
	var lines []string
	// The recommended limits hold as far as the flags allow.
	limitless := Limits{RequestBody: 1 << 40, ResponseBody: 1 << 40}
	users.settings.audit = true
	for _, d := range base {
		if err := users.settings.read(d, limitless); err != nil {
			return "", settings{}, err
		}
	}
	users.settings.requestLimit = min(users.settings.requestLimit, limits.RequestBody)
	users.settings.responseLimit = min(users.settings.responseLimit, limits.ResponseBody)
	users.settings.engine = string(c.Mode)
	limit := []string{
		"SecRuleEngine " + string(c.Mode),
		"SecRequestBodyLimit " + strconv.FormatInt(users.settings.requestLimit, 10),
		"SecResponseBodyLimit " + strconv.FormatInt(users.settings.responseLimit, 10),
	}
	if err := users.add(c.Directives, limits); err != nil {
		return "", settings{}, err
	}
	if c.CoreRuleSet {
		users.addCoreRuleSet()
	}
	for _, d := range base {
		// A snippet that repeats the recommended rules, which many do, replaces them.
		if id := ruleID.FindStringSubmatch(d.value); id != nil && users.ids[id[1]] {
			continue
		}
		lines = append(lines, d.String())
	}
	lines = append(lines, limit...)
	lines = append(lines, users.directives...)
	lines = append(lines, users.last...)
	// Bodies stay in memory, and the audit log is this program's own.
	lines = append(lines, "SecRequestBodyInMemoryLimit "+strconv.FormatInt(users.settings.requestLimit, 10), "SecAuditEngine Off")
	return strings.Join(lines, "\n") + "\n", users.settings, nil
}

func recommendedDirectives() ([]directive, error) {
	content, err := fs.ReadFile(coreruleset.FS, recommended)
	if err != nil {
		return nil, err
	}
	all, err := split(string(content))
	if err != nil {
		return nil, err
	}
	var kept []directive
	for _, d := range all {
		if treatments[d.name] == keep && d.name != "secauditengine" {
			kept = append(kept, d)
		}
	}
	return kept, nil
}
