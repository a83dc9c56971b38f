package configuration

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

var testLimits = Limits{RequestBody: 1 << 20, ResponseBody: 1 << 20}

func compile(t *testing.T, c Configuration) *WAF {
	t.Helper()
	waf, err := Compile(c, testLimits)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(waf.Close)
	return waf
}

// interruptedBy runs a GET request and returns the rule that interrupts it, or 0.
func interruptedBy(waf *WAF, uri string) int {
	tx := waf.NewTransaction()
	defer tx.Close()
	tx.ProcessConnection("192.0.2.1", 1, "", 80)
	tx.ProcessURI(uri, "GET", "HTTP/1.1")
	tx.AddRequestHeader("Host", "a.example")
	tx.AddRequestHeader("User-Agent", "test")
	tx.AddRequestHeader("Accept", "*/*")
	if in := tx.ProcessRequestHeaders(); in != nil {
		return in.RuleID
	}
	if in, _ := tx.ProcessRequestBody(); in != nil {
		return in.RuleID
	}
	return 0
}

func TestDirectivesThatReachOutAreRefused(t *testing.T) {
	for text, message := range map[string]string{
		`SecRule ARGS "@rx x" "id:1,exec:/bin/true"`:                "exec",
		`SecAction "id:1,setenv:PATH=/tmp"`:                         "setenv",
		`SecRule ARGS "@inspectFile /bin/true" "id:1"`:              "inspectFile",
		`SecRule REMOTE_ADDR "@rbl dnsbl.example" "id:1"`:           "rbl",
		`SecRule REMOTE_ADDR "@geoLookup" "id:1,phase:1"`:           "geoLookup",
		`SecRemoteRules key https://rules.example/`:                 "secremoterules",
		`SecRuleScript /tmp/x.lua`:                                  "secrulescript",
		`Include /etc/passwd`:                                       "/etc/passwd",
		`Include ../../secret.conf`:                                 "secret.conf",
		"SecRuleEngine On\nSecMagic On":                             "line 2",
		`SecRequestBodyLimit 2000000`:                               "--max-request-body",
		`SecResponseBodyLimit lots`:                                 "number of bytes",
		"SecRule ARGS \"@rx x\" \\\n \"id:1,pass\" \\":              "never ends",
		"SecAction \"id:1,pass\"\n# " + strings.Repeat("x", 64<<10): "longest",
		`SecRuleEngine Sometimes`:                                   "sometimes",
		strings.Repeat("#\n", MaxDirectives):                        "at most",
		"SecAction \"id:1,pass\"\nSecAction \"id:1,pass\"":          "1",
		`SecRule ARGS "@pmFromFile /etc/passwd" "id:1,phase:1"`:     "passwd",
	} {
		waf, err := Compile(Configuration{Mode: On, Directives: text}, testLimits)
		if err == nil {
			waf.Close()
			t.Errorf("accepted %.80q", text)
		} else if !strings.Contains(err.Error(), message) && !strings.Contains(strings.ToLower(err.Error()), message) {
			t.Errorf("%.80q: %v", text, err)
		}
	}
}

func TestDirectivesOfModSecurityThatNameFilesAreLeftOut(t *testing.T) {
	compile(t, Configuration{Mode: On, Directives: `
SecAuditLog /dev/stdout
SecAuditLogFormat JSON
SecAuditEngine RelevantOnly
SecDebugLog /tmp/modsec_debug.log
SecTmpDir /tmp/
SecDataDir /var/lib
SecUploadDir /nowhere
SecUploadKeepFiles On
SecUnicodeMapFile unicode.mapping 20127
SecStatusEngine Off
SecArgumentSeparator &
SecCookieFormat 0
SecPcreMatchLimit 1000
SecRequestBodyInMemoryLimit 1
Include /etc/nginx/modsecurity/modsecurity.conf
`})
}

func TestDirectivesWinOverTheModeAndTheRecommendedOnes(t *testing.T) {
	waf := compile(t, Configuration{Mode: DetectionOnly, Directives: `
secruleengine On
SecRequestBodyLimit 1000
SecRequestBodyLimitAction ProcessPartial
SecAuditEngine Off
SecRule REQBODY_ERROR "!@eq 0" "id:200002,phase:2,pass,log"
SecRule ARGS "@rx bad" "id:'1',phase:1,deny"`})
	if waf.Mode != On || !waf.Blocking || waf.RequestLimit != 1000 || !waf.PartialRequest || waf.Audit {
		t.Errorf("%+v", waf)
	}
	if rule := interruptedBy(waf, "/?a=bad"); rule != 1 {
		t.Errorf("interrupted by %d", rule)
	}
	if detecting := compile(t, Configuration{Mode: DetectionOnly}); detecting.Blocking || !detecting.PartialRequest || !detecting.Audit ||
		detecting.RequestLimit != testLimits.RequestBody || detecting.ResponseLimit != 524288 {
		t.Errorf("%+v", detecting)
	}
	switching := compile(t, Configuration{Mode: DetectionOnly, Directives: `SecAction "id:1,phase:1,pass,nolog,ctl:ruleEngine=On"`})
	if !switching.Blocking {
		t.Error("a rule that switches the engine on blocks")
	}
}

func TestCoreRuleSetComesAfterTheDirectivesAndExceptionsAfterIt(t *testing.T) {
	const attack = "/?q=%3Cscript%3Ealert(1)%3C/script%3E"
	waf := compile(t, Configuration{Mode: On, CoreRuleSet: true, Directives: `
SecRuleUpdateTargetById 941100 "!ARGS:q"
SecRuleRemoveByTag "attack-xss"
SecAction "id:900110,phase:1,pass,nolog,setvar:tx.inbound_anomaly_score_threshold=1"`})
	if rule := interruptedBy(waf, attack); rule != 0 {
		t.Errorf("interrupted by %d, whose matches are excepted", rule)
	}
	for _, directives := range []string{
		"", "Include /etc/nginx/owasp-modsecurity-crs/nginx-modsecurity.conf",
		"Include /etc/nginx/owasp-modsecurity-crs/crs-setup.conf\nInclude @owasp_crs/*.conf",
	} {
		if rule := interruptedBy(compile(t, Configuration{Mode: On, CoreRuleSet: true, Directives: directives}), attack); rule != 949110 {
			t.Errorf("%q: interrupted by %d", directives, rule)
		}
	}
}

func TestIncludedFilesOfTheCoreRuleSetAreThoseOfTheModule(t *testing.T) {
	text, err := Text(Configuration{Mode: On, Directives: `
Include /etc/nginx/owasp-modsecurity-crs/crs-setup.conf
Include /etc/nginx/owasp-modsecurity-crs/rules/REQUEST-900-EXCLUSION-RULES-BEFORE-CRS.conf
Include "/etc/nginx/owasp-modsecurity-crs/rules/REQUEST-901-INITIALIZATION.conf"`}, testLimits)
	if err != nil || !strings.Contains(text, "Include @crs-setup.conf.example\n") || !strings.Contains(text, "Include @owasp_crs/REQUEST-901-INITIALIZATION.conf\n") ||
		strings.Contains(text, "REQUEST-900") || strings.Contains(text, "*.conf") {
		t.Errorf("%v\n%s", err, text)
	}
}

type counter struct{ compiled, failed atomic.Int64 }

func (c *counter) Compiled(_ time.Duration, err error) {
	c.compiled.Add(1)
	if err != nil {
		c.failed.Add(1)
	}
}

func TestConfigurationIsCompiledOnceHoweverManyAsk(t *testing.T) {
	count := &counter{}
	cache := NewCache(2, testLimits, slog.New(slog.NewTextHandler(io.Discard, nil)), count)
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			if _, err := cache.WAF(context.Background(), Configuration{Mode: On}, "a"); err != nil {
				t.Error(err)
			}
			if _, err := cache.WAF(context.Background(), Configuration{Mode: On, Directives: "Broken"}, "b"); err == nil {
				t.Error("compiled")
			}
		})
	}
	all.Wait()
	if count.compiled.Load() != 2 || count.failed.Load() != 1 || cache.Len() != 2 {
		t.Errorf("%d compiled, %d failed, %d kept", count.compiled.Load(), count.failed.Load(), cache.Len())
	}
}

func TestConfigurationThatWasNotUsedForLongestIsDropped(t *testing.T) {
	count := &counter{}
	cache := NewCache(2, testLimits, slog.New(slog.NewTextHandler(io.Discard, nil)), count)
	ask := func(directives string) {
		if _, err := cache.WAF(context.Background(), Configuration{Mode: On, Directives: directives}, "x"); err != nil {
			t.Fatal(err)
		}
	}
	for _, directives := range []string{"# 1", "# 2", "# 1", "# 3", "# 1"} {
		ask(directives)
	}
	if count.compiled.Load() != 3 || cache.Len() != 2 {
		t.Fatalf("%d compiled, %d kept", count.compiled.Load(), cache.Len())
	}
	ask("# 2")
	if count.compiled.Load() != 4 {
		t.Errorf("%d compiled", count.compiled.Load())
	}
}

func TestCallerThatLeavesDoesNotWaitForACompilation(t *testing.T) {
	cache := NewCache(2, testLimits, slog.New(slog.NewTextHandler(io.Discard, nil)), &counter{})
	cache.places <- struct{}{} // Another configuration is being compiled.
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := cache.WAF(ctx, Configuration{Mode: On}, "a"); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	<-cache.places
}
