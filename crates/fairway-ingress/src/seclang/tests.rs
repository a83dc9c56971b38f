//! Translated texts of rules, and refused texts with their line.

use super::*;

fn read(text: &str) -> RuleText {
    RuleText::read(text).unwrap_or_else(|problem| panic!("{text}\n{problem}"))
}

fn directives(text: &str) -> Vec<String> {
    let parts = read(text).parts.into_iter().map(|part| match part {
        RulePart::Directive(directive) => directive,
        RulePart::CoreRuleSet => "core rule set".to_owned(),
    });
    parts.collect()
}

fn refused(text: &str) -> String {
    RuleText::read(text).map_or_else(|problem| problem.to_string(), |read| panic!("{text}\n{read:?}"))
}

#[test]
fn comments_continuations_and_quotes_are_read_as_modsecurity_does() {
    let text = r#"
        # SecRule ARGS "@rx a" \
            "id:1,deny"
        SecRule REQUEST_URI "@beginsWith /admin" \
            "id:1001, \
             phase:1,deny,status:403,msg:\'No, not here\',tag:'a'"

        SecAction id:1002,phase:1,nolog,pass,setvar:tx.level=2
    "#;
    let expected = [
        "SecRule REQUEST_URI \"@beginsWith /admin\" \"id:1001,phase:1,deny,status:403,msg:'No, not here',tag:'a'\"",
        "SecAction \"id:1002,phase:1,nolog,pass,setvar:tx.level=2\"",
    ];
    assert_eq!(directives(text), expected);
}

#[test]
fn the_last_value_of_a_setting_counts_and_an_include_sets_those_of_its_file() {
    let text = read(
        "SecRuleEngine On\nSecRequestBodyAccess Off\nInclude /etc/nginx/modsecurity/modsecurity.conf\n\
         secrequestbodylimit 1000\nSecRequestBodyLimit \"2000\"\nSecAuditLog /dev/stdout\n\
         SecAuditLogRelevantStatus \"^(?:5|4(?!04))\"",
    );
    assert_eq!((text.engine, text.recommended), (Some(Engine::DetectionOnly), true));
    let settings: Vec<_> = text.settings.iter().map(|(name, value)| format!("{name} {value}")).collect();
    let relevant = "SecAuditLogRelevantStatus \"^(?:5|4(?:0[0-35-9]|[1-9]))\"";
    assert_eq!(settings, [relevant, "SecRequestBodyLimit 2000"]);
    assert_eq!(read("SecRuleEngine Off\nSecRuleEngine on").engine, Some(Engine::On));
}

#[test]
fn the_core_rule_set_keeps_its_place_and_changes_to_rules_come_last() {
    let text = "SecRuleRemoveById 942100 \"920000-920999\"\n\
                SecAction \"id:900110,phase:1,pass,nolog,setvar:tx.inbound_anomaly_score_threshold=10\"\n\
                Include /etc/nginx/owasp-modsecurity-crs/nginx-modsecurity.conf\n\
                SecRuleUpdateTargetById 942100 \"!ARGS:q|!ARGS:/^x/\"\n\
                SecRuleUpdateTargetByTag attack-sqli !REQUEST_COOKIES,!ARGS:q\n\
                SecRule ARGS:q \"!@rx ^[a-z]+$\" \"id:2,phase:2,pass,log\"";
    let parts = directives(text);
    assert_eq!(parts.len(), 3);
    assert_eq!((parts[1].as_str(), &parts[2][..14]), ("core rule set", "SecRule ARGS:q"));
    let expected = [
        "SecRuleRemoveById 942100 920000-920999",
        "SecRuleUpdateTargetById 942100 \"!ARGS:q|!ARGS:/^x/\"",
        "SecRuleUpdateTargetByTag attack-sqli \"!REQUEST_COOKIES|!ARGS:q\"",
    ];
    assert_eq!(read(text).exceptions, expected);
}

#[test]
fn access_to_the_outside_is_refused_with_its_line() {
    for (directive, reason) in [
        ("SecAuditLog /var/log/audit.log", "of SecAuditLog only /dev/stdout, /dev/stderr is allowed"),
        ("SecDebugLog /tmp/modsec_debug.log", "SecDebugLog is refused: it names a file"),
        (
            "SecRemoteRules key https://rules.test/x",
            "SecRemoteRules is refused: it reads rules from another server",
        ),
        ("Include /etc/passwd", "can be included"),
        ("Include /etc/nginx/owasp-modsecurity-crs/*.conf", "can be included"),
        ("SecRuleScript x.lua \"id:1,deny\"", "SecRuleScript is refused: it runs a program"),
        ("SecRule ARGS \"@pmFromFile /etc/passwd\" \"id:1,deny\"", "@pmFromFile is refused: it reads a file"),
        ("SecRule ARGS \"@ipMatchFromFile x\" \"id:1,deny\"", "@ipMatchFromFile is refused: it reads a file"),
        ("SecRule FILES \"!@inspectFile x.pl\" \"id:1,deny\"", "@inspectFile is refused: it runs a program"),
        ("SecRule REMOTE_ADDR \"@rbl x.test\" \"id:1,deny\"", "@rbl is refused: it asks a name server"),
        ("SecRule ENV:HOME \"@rx .\" \"id:1,deny\"", "ENV is no variable that is understood"),
        ("SecRule ARGS \"@rx .\" \"id:1,deny,exec:/bin/sh\"", "exec is refused: it runs a program"),
        ("SecRule ARGS \"@rx .\" \"id:1,deny,setenv:PATH=x\"", "setenv is refused"),
        ("SecAction \"id:1,pass,initcol:ip=%{REMOTE_ADDR}\"", "no collection is kept between requests"),
        ("SecAction \"id:1,pass,ctl:debugLogLevel=9\"", "ctl has no such option, or it is refused"),
    ] {
        let found = refused(&format!("SecRuleEngine On\n\n{directive}"));
        assert!(found.starts_with("line 3, \"") && found.contains(reason), "{directive}: {found}");
    }
}

#[test]
fn unknown_directives_are_refused() {
    for (text, reason) in [
        ("SecNoSuchThing On", "is no directive"),
        ("modsecurity on;", "is no directive"),
        ("SecRuleEngine Maybe", "one of On, Off and DetectionOnly"),
        ("SecRule ARGS \"@rx x", "a double quote is not closed"),
        ("SecRule ARGS \"@rx x\"\"id:1\"", "without a space"),
        ("SecRule ARGS 'x' \"id:1\"", "between double quotes"),
        ("SecRule ARGS \"@rx x\"", "the rule has no id"),
        ("SecRule ARGS \"@rx x\" \"id:1,deny\"\nSecAction \"id:1,pass\"", "line 2"),
        ("SecRule ARGS \"@rx x\" \"id:1,chain\"\nSecAction \"id:2\"", "behind which a SecRule must follow"),
        ("SecRule ARGS \"@rx x\" \"id:1,chain\"", "no rule follows"),
        ("SecRule ARGS \"@rx x\" \\", "its last line ends in"),
        ("SecRule ARGS \\\n\n\"@rx x\" \"id:1\"", "is not continued"),
        ("SecRule REQUEST_URI:x \"@rx x\" \"id:1\"", "REQUEST_URI has no parts"),
        ("SecRule ARGS \"@rx (?!x)\" \"id:1\"", "look-around"),
        ("SecRule ARGS \"(a)\\\\1\" \"id:1\"", "a back reference"),
        ("SecRule ARGS \"a{1001}\" \"id:1\"", "more than 1000 repetitions"),
        ("SecRule ARGS \"@rx x\" \"id:1,msg:'a' b\"", "a quote stands inside"),
        ("SecRule ARGS \"@rx x\" \"id:1,nonsense\"", "no action"),
        ("SecRule ARGS \"@rx x\" \"id:1,t:rot13\"", "no such transformation"),
        ("SecRule ARGS \"@rx x\" \"id:1,status:700\"", "a status is"),
        ("SecRequestBodyLimit many", "no whole number"),
        ("SecRuleUpdateTargetById 942100 \"!ARGS:/a,b/\"", "not a comma"),
        ("SecRuleRemoveById nine", "ids and ranges"),
        ("SecRuleEngine On\u{7}", "control character"),
    ] {
        let found = refused(text);
        assert!(found.contains(reason), "{text}: {found}");
    }
    assert!(refused(&"#".repeat(MAX_TEXT + 1)).contains("are allowed"));
}

#[test]
fn a_chain_has_one_id() {
    let chain = "SecRule REQUEST_METHOD \"@streq POST\" \"id:7,phase:1,deny,chain\"\n\
                 SecRule &REQUEST_HEADERS:X-Token|XML:/* \"@eq 0\" \"t:none\"\nSecMarker END";
    assert_eq!(directives(chain).len(), 3);
    let second = chain.replace("t:none", "id:8");
    assert!(refused(&second).contains("only the first has one"));
}

#[test]
fn rules_of_an_ingress_precede_global_ones_and_its_settings_take_precedence() {
    let settings = read("SecRuleEngine On\nSecRequestBodyLimit 1\nSecMarker OWN");
    let of_all = read("SecRuleEngine Off\nSecRequestBodyLimit 2\nSecMarker ALL\nSecAction \"id:5,pass\"");
    let merged = settings.before(of_all.clone()).unwrap();
    assert_eq!((merged.engine, merged.settings["SecRequestBodyLimit"].as_str()), (Some(Engine::On), "1"));
    assert_eq!(merged.parts[0], RulePart::Directive("SecMarker \"OWN\"".to_owned()));
    assert_eq!(RuleText::default().before(of_all.clone()), Ok(of_all.clone()));
    assert_eq!(read("SecAction \"id:5,pass\"").before(of_all), Err(5));
}
