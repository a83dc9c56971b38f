package configuration

import (
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strconv"
	"strings"

	coreruleset "github.com/corazawaf/coraza-coreruleset/v4"
)

// maxLine is the longest line of a text in bytes. Coraza's reader silently leaves out what follows a line of 64 KiB.
const maxLine = 32 << 10

// treatment is the handling of a directive.
type treatment int

const (
	// refuse makes the configuration invalid: directives that reach files, the network or other programs, and those that Coraza lacks.
	refuse treatment = iota
	// keep gives the directive to Coraza where it stands.
	keep
	// last gives it to Coraza after the Core Rule Set. libmodsecurity applies these at run time, so that their place does not matter there;
	// Coraza applies them to the rules that it has read so far.
	last
	// ignore leaves it out: it names files or tunes what Coraza does not have, and protects nothing.
	ignore
	// include is `Include`.
	include
)

var treatments = map[string]treatment{
	"include":                       include,
	"secaction":                     keep,
	"secargumentslimit":             keep,
	"secauditengine":                keep,
	"secdataset":                    keep,
	"secdefaultaction":              keep,
	"secmarker":                     keep,
	"secrequestbodyaccess":          keep,
	"secrequestbodyjsondepthlimit":  keep,
	"secrequestbodylimit":           keep,
	"secrequestbodylimitaction":     keep,
	"secresponsebodyaccess":         keep,
	"secresponsebodyjsondepthlimit": keep,
	"secresponsebodylimit":          keep,
	"secresponsebodylimitaction":    keep,
	"secresponsebodymimetype":       keep,
	"secresponsebodymimetypesclear": keep,
	"secrule":                       keep,
	"secruleengine":                 keep,

	"secruleremovebyid":        last,
	"secruleremovebymsg":       last,
	"secruleremovebytag":       last,
	"secruleupdateactionbyid":  last,
	"secruleupdatetargetbyid":  last,
	"secruleupdatetargetbymsg": last,
	"secruleupdatetargetbytag": last,

	"secargumentseparator":        ignore,
	"secauditlog":                 ignore,
	"secauditlog2":                ignore,
	"secauditlogdirmode":          ignore,
	"secauditlogfilemode":         ignore,
	"secauditlogformat":           ignore,
	"secauditlogparts":            ignore,
	"secauditlogrelevantstatus":   ignore,
	"secauditlogstoragedir":       ignore,
	"secauditlogtype":             ignore,
	"seccollectiontimeout":        ignore,
	"seccomponentsignature":       ignore,
	"seccookieformat":             ignore,
	"secdatadir":                  ignore,
	"secdebuglog":                 ignore,
	"secdebugloglevel":            ignore,
	"secpcrematchlimit":           ignore,
	"secpcrematchlimitrecursion":  ignore,
	"secrequestbodyinmemorylimit": ignore,
	"secrequestbodynofileslimit":  ignore,
	"secsensorid":                 ignore,
	"secserversignature":          ignore,
	"secstatusengine":             ignore,
	"sectmpdir":                   ignore,
	"secunicodemapfile":           ignore,
	"secuploaddir":                ignore,
	"secuploadfilelimit":          ignore,
	"secuploadfilemode":           ignore,
	"secuploadkeepfiles":          ignore,
	"secwebappid":                 ignore,
}

// reaching finds actions and operators that run programs, change the environment or ask name servers.
var reaching = regexp.MustCompile(`(?i)(?:^|[\s,"'])(exec|setenv)\s*:|@(inspectFile|rbl)\b`)

// geography finds an operator that never matches, as there is no database of addresses: a rule that refuses countries would refuse none.
var geography = regexp.MustCompile(`(?i)@geoLookup\b`)

var ruleID = regexp.MustCompile(`(?i)(?:^|[\s,"'])id\s*:\s*'?(\d+)`)

// directive is one directive of a text on one line, its continuations joined.
type directive struct {
	name  string // in lower case
	value string
	line  int // the first one, from 1
	raw   string
}

func (d directive) String() string { return d.raw }

// unquoted is the value of a setting without the quotes around it.
func (d directive) unquoted() string { return strings.Trim(d.value, `"`) }

// split reads a text as Coraza's parser does, and refuses what that parser would silently leave out.
func split(text string) ([]directive, error) {
	var directives []directive
	var joined strings.Builder
	first, quoted := 0, false
	for i, line := range strings.Split(text, "\n") {
		if len(line) > maxLine {
			return nil, fmt.Errorf("line %d has %d bytes; the longest that is read has %d", i+1, len(line), maxLine)
		}
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		if first == 0 {
			first = i + 1
		}
		if !quoted && line[len(line)-1] == '`' {
			quoted = true
		} else if quoted && line[0] == '`' {
			quoted = false
		}
		if quoted {
			joined.WriteString(line + "\n")
			continue
		}
		if before, more := strings.CutSuffix(line, `\`); more {
			joined.WriteString(before)
			continue
		}
		joined.WriteString(line)
		whole := strings.TrimSpace(joined.String())
		name, value := whole, ""
		if at := strings.IndexAny(whole, " \t"); at >= 0 {
			name, value = whole[:at], strings.TrimSpace(whole[at:])
		}
		directives = append(directives, directive{strings.ToLower(name), value, first, strings.TrimSpace(name + " " + value)})
		joined.Reset()
		first = 0
	}
	if first != 0 {
		return nil, fmt.Errorf("line %d begins a directive that never ends", first)
	}
	return directives, nil
}

// text is a list of directives that Coraza reads, and what the program itself needs to know of it.
type text struct {
	directives []string
	last       []string
	ids        map[string]bool
	// Phases that have a `SecDefaultAction`.
	defaultActions map[string]bool
	coreRuleSet    bool
	settings       settings
}

// settings are the values that hold in the end.
type settings struct {
	engine                          string
	requestLimit, responseLimit     int64
	partialRequest, partialResponse bool
	audit                           bool
	enablesEngine                   bool // a rule switches the engine on
}

// add reads a text of a user into t.
func (t *text) add(source string, limits Limits) error {
	directives, err := split(source)
	if err != nil {
		return err
	}
	for _, d := range directives {
		if err := t.addOne(d, limits); err != nil {
			return fmt.Errorf("line %d: %w", d.line, err)
		}
	}
	return nil
}

func (t *text) addOne(d directive, limits Limits) error {
	if found := reaching.FindString(d.value); found != "" && d.name != "secdataset" {
		return fmt.Errorf("%q is not allowed: rules may not run programs, change the environment or ask name servers",
			strings.Trim(found, ` ,"'`))
	}
	if d.name == "secrule" && geography.MatchString(d.value) {
		return errors.New("@geoLookup is not supported: there is no database of addresses")
	}
	switch treatments[d.name] {
	case keep:
		if err := t.settings.read(d, limits); err != nil {
			return err
		}
		if id := ruleID.FindStringSubmatch(d.value); id != nil && (d.name == "secrule" || d.name == "secaction") {
			t.ids[id[1]] = true
		}
		if d.name == "secdefaultaction" {
			if phase := defaultPhase.FindStringSubmatch(d.value); phase != nil {
				t.defaultActions[phase[1]] = true
			}
		}
		if d.name != "secauditengine" {
			t.directives = append(t.directives, d.String())
		}
	case last:
		t.last = append(t.last, d.String())
	case include:
		return t.include(d.unquoted())
	case ignore:
	default:
		return fmt.Errorf("the directive %q is not supported", cut(d.name, 64))
	}
	return nil
}

var defaultPhase = regexp.MustCompile(`(?i)phase\s*:\s*(\d)`)

const (
	nginxRules       = "/etc/nginx/owasp-modsecurity-crs/"
	recommended      = "@coraza.conf-recommended"
	coreRuleSetSetup = "@crs-setup.conf.example"
)

// include reads `Include` of what the image of ingress-nginx has at known paths, and of files of the Core Rule Set's module.
func (t *text) include(path string) error {
	switch path {
	case "/etc/nginx/modsecurity/modsecurity.conf", recommended:
		return nil // Every configuration begins with it.
	case nginxRules + "nginx-modsecurity.conf":
		t.addCoreRuleSet()
		return nil
	case nginxRules + "crs-setup.conf":
		path = coreRuleSetSetup
	}
	if rest, ok := strings.CutPrefix(path, nginxRules+"rules/"); ok {
		switch rest {
		case "REQUEST-900-EXCLUSION-RULES-BEFORE-CRS.conf", "RESPONSE-999-EXCLUSION-RULES-AFTER-CRS.conf":
			return nil // Examples with comments only.
		}
		path = "@owasp_crs/" + rest
	}
	files, err := fs.Glob(coreruleset.FS, path)
	if !strings.HasPrefix(path, "@") || err != nil || len(files) == 0 {
		return fmt.Errorf("Include %q: only the files of ingress-nginx's image and of the Core Rule Set can be included", cut(path, 128))
	}
	if path == "@owasp_crs/*.conf" {
		t.coreRuleSet = true
	}
	if strings.HasPrefix(path, "@owasp_crs/") {
		t.addDefaultActions()
	}
	t.directives = append(t.directives, "Include "+path)
	return nil
}

// addCoreRuleSet adds the whole Core Rule Set, unless it is there.
func (t *text) addCoreRuleSet() {
	if t.coreRuleSet {
		return
	}
	t.coreRuleSet = true
	t.addDefaultActions()
	if !slices.Contains(t.directives, "Include "+coreRuleSetSetup) {
		t.directives = append(t.directives, "Include "+coreRuleSetSetup)
	}
	t.directives = append(t.directives, "Include @owasp_crs/*.conf")
}

// addDefaultActions says what rules of the later phases do. The Core Rule Set says it for two, and its `block` needs it for all.
func (t *text) addDefaultActions() {
	for _, phase := range []string{"3", "4", "5"} {
		if !t.defaultActions[phase] {
			t.defaultActions[phase] = true
			t.directives = append(t.directives, fmt.Sprintf(`SecDefaultAction "phase:%s,log,auditlog,pass"`, phase))
		}
	}
}

// read records the effect of a directive.
func (s *settings) read(d directive, limits Limits) error {
	value := strings.ToLower(d.unquoted())
	switch d.name {
	case "secruleengine":
		s.engine = value
	case "secauditengine":
		s.audit = value != "off"
	case "secrequestbodylimit":
		return readLimit(value, limits.RequestBody, "SecRequestBodyLimit", "--max-request-body", &s.requestLimit)
	case "secresponsebodylimit":
		return readLimit(value, limits.ResponseBody, "SecResponseBodyLimit", "--max-response-body", &s.responseLimit)
	case "secrequestbodylimitaction":
		s.partialRequest = value == "processpartial"
	case "secresponsebodylimitaction":
		s.partialResponse = value == "processpartial"
	case "secrule", "secaction":
		s.enablesEngine = s.enablesEngine || enablesEngine.MatchString(d.value)
	}
	return nil
}

var enablesEngine = regexp.MustCompile(`(?i)ctl\s*:\s*'?\s*ruleEngine\s*=\s*On`)

func readLimit(value string, limit int64, name, flag string, into *int64) error {
	bytes, err := strconv.ParseInt(value, 10, 64)
	if err != nil || bytes <= 0 {
		return fmt.Errorf("%s %q is not a number of bytes", name, cut(value, 32))
	}
	if bytes > limit {
		return fmt.Errorf("%s %d is more than %s %d allows; raise the flag of fairway-waf or lower the directive", name, bytes, flag, limit)
	}
	*into = bytes
	return nil
}

func cut(s string, bytes int) string {
	if len(s) <= bytes {
		return s
	}
	return strings.ToValidUTF8(s[:bytes], "") + "…"
}
