//! Values for which ingress-nginx does not configure an Ingress at all: its parser stops at the first
//! `ValidationError`, or at an annotation that exceeds the risk level (`annotations.go`, `Extract`). Such an Ingress
//! is not served here either; if the value protects, its paths are closed, so that no less specific path of another
//! Ingress serves them. The families handle other values that ingress-nginx replaces with the default or answers by
//! closing the paths.

use fairway_model::redact_url;
use fairway_objects::annotations::text::{parse_bool, parse_ranges};
use fairway_objects::diagnostic::{Diagnostic, Severity};
use fairway_objects::options::UnsupportedProtection;
use fairway_pattern::{Anchor, Pattern};

use crate::ingress::context::Context;
use crate::ingress::reader::Reader;

/// How an Ingress is treated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Refusal {
    /// It is served.
    None,
    /// Not served, as in ingress-nginx.
    NotServed,
    /// Not served, and because the value protects, its paths return 404 even if another Ingress has a less specific
    /// path.
    Closed,
}

impl Refusal {
    fn for_annotation(annotation: &str) -> Self {
        let protects = CRITICAL_ANNOTATIONS.contains(&annotation) || annotation.starts_with("auth-");
        if protects { Self::Closed } else { Self::NotServed }
    }

    fn consequence(self) -> &'static str {
        match self {
            Self::Closed => "the paths of the Ingress answer 404",
            _ => "the Ingress is not served, as in ingress-nginx",
        }
    }
}

/// ConfigMap key for the accepted risk level of annotations.
const RISK_LEVEL: &str = "annotations-risk-level";

/// A validation rule for an annotation.
struct ValueCheck {
    name: &'static str,
    when: CheckCondition,
    /// The requirement, as the end of a sentence.
    requirement: &'static str,
    is_valid: fn(&str) -> bool,
}

/// When ingress-nginx validates an annotation.
#[derive(Clone, Copy)]
enum CheckCondition {
    Always,
    /// If another annotation has a value.
    With(&'static str),
    /// If another annotation has no value.
    Without(&'static str),
}

/// Annotations that are refused unless the risk level is Critical.
const CRITICAL_ANNOTATIONS: [&str; 5] =
    ["auth-snippet", "configuration-snippet", "modsecurity-snippet", "server-snippet", "stream-snippet"];

/// Annotations that may contain a password, so messages do not repeat their values.
const URL_ANNOTATIONS: [&str; 4] =
    ["auth-tls-error-page", "auth-url", "permanent-redirect", "temporal-redirect"];

const NAME: &str = "made of letters, digits and -._~/:";
const NUMBER: &str = "a whole number";
const SERVER_NAME: &str = "made of letters, digits and what regular expressions have";
const SWITCH: &str = "true or false";
const URL: &str = "a URL of letters, digits and -._~/:,?&=";

const CHECKS: &[ValueCheck] = &[
    check(
        "auth-realm",
        CheckCondition::With("auth-type"),
        "made of letters, digits, spaces and -._~/:",
        is_realm,
    ),
    check("auth-secret-type", CheckCondition::With("auth-type"), "auth-file or auth-map", is_secret_type),
    check(
        "auth-tls-error-page",
        CheckCondition::With("auth-tls-secret"),
        "a URL, a path or a named location",
        is_page,
    ),
    check(
        "auth-tls-match-cn",
        CheckCondition::With("auth-tls-secret"),
        "a pattern that begins with CN=",
        is_subject,
    ),
    check(
        "auth-tls-pass-certificate-to-upstream",
        CheckCondition::With("auth-tls-secret"),
        SWITCH,
        is_switch,
    ),
    check("auth-tls-secret", CheckCondition::Always, NAME, is_name),
    check("auth-type", CheckCondition::Always, "basic or digest", is_auth_type),
    check(
        "auth-url",
        CheckCondition::Always,
        "a URL of letters, digits, variables and -._~/:,?&=",
        is_auth_url,
    ),
    check("client-body-buffer-size", CheckCondition::Always, "a size such as 8, 8k or 8m", is_size),
    check("connection-proxy-header", CheckCondition::Always, "close or keep-alive", is_connection),
    check("custom-http-errors", CheckCondition::Always, "a list of statuses from 400 to 599", are_statuses),
    check("default-backend", CheckCondition::Always, "the name of a Service", is_service),
    check("fastcgi-index", CheckCondition::Always, "the name of a file", is_file),
    check("fastcgi-params-configmap", CheckCondition::Always, NAME, is_name),
    check("from-to-www-redirect", CheckCondition::Always, SWITCH, is_switch),
    check("http2-push-preload", CheckCondition::Always, SWITCH, is_switch),
    check("limit-allowlist", CheckCondition::Always, "a list of addresses and ranges", are_ranges),
    check("limit-connections", CheckCondition::Always, NUMBER, is_number),
    check("limit-rpm", CheckCondition::Always, NUMBER, is_number),
    check("limit-rps", CheckCondition::Always, NUMBER, is_number),
    check(
        "limit-whitelist",
        CheckCondition::Without("limit-allowlist"),
        "a list of addresses and ranges",
        are_ranges,
    ),
    check("load-balance", CheckCondition::Always, "an algorithm (round_robin, ewma)", is_algorithm),
    check("permanent-redirect", CheckCondition::Without("temporal-redirect"), URL, is_url),
    check("permanent-redirect-code", CheckCondition::Without("temporal-redirect"), NUMBER, is_number),
    check("proxy-ssl-secret", CheckCondition::Always, NAME, is_name),
    check("relative-redirects", CheckCondition::Always, SWITCH, is_switch),
    check("server-alias", CheckCondition::Always, SERVER_NAME, are_server_names),
    check("ssl-ciphers", CheckCondition::Always, "a list of cipher suites", are_ciphers),
    check("ssl-passthrough", CheckCondition::Always, SWITCH, is_switch),
    check("temporal-redirect", CheckCondition::Always, URL, is_url),
    check("temporal-redirect-code", CheckCondition::With("temporal-redirect"), NUMBER, is_number),
    check("upstream-hash-by", CheckCondition::Always, "made of letters, digits and -_${}", is_hash),
    check("upstream-hash-by-subset", CheckCondition::Always, SWITCH, is_switch),
    check("upstream-hash-by-subset-size", CheckCondition::Always, NUMBER, is_number),
    check("upstream-vhost", CheckCondition::Always, SERVER_NAME, is_server_name),
    check(
        "x-forwarded-prefix",
        CheckCondition::Always,
        "a path with captures $1 to $9",
        is_path_with_captures,
    ),
];

const fn check(
    name: &'static str,
    when: CheckCondition,
    what: &'static str,
    is_good: fn(&str) -> bool,
) -> ValueCheck {
    ValueCheck { name, when, requirement: what, is_valid: is_good }
}

/// Whether ingress-nginx would refuse the Ingress. Reports each refused annotation.
pub(crate) fn refusal(reader: &mut Reader<'_>, context: &Context<'_>) -> Refusal {
    let risky = may_bring_configuration(context);
    let mut refusal = Refusal::None;
    for (name, value) in reader.untrimmed().collect::<Vec<_>>() {
        let of_this = Refusal::for_annotation(name);
        if CRITICAL_ANNOTATIONS.contains(&name) && !risky {
            let settings_name = match context.inputs.options.configmap {
                Some(_) => "the settings ConfigMap",
                None => "a settings ConfigMap, which --configmap names,",
            };
            let problem = format!(
                "{name} is nginx configuration, which is refused unless {RISK_LEVEL} in {settings_name} is Critical"
            );
            let found = Diagnostic::new(Severity::Error, "unsupported-protection", reader.at(name));
            reader.report(found.because(problem, of_this.consequence()));
            refusal = refusal.max(of_this);
        }
        let check = CHECKS.iter().find(|check| check.name == name && check.applies(reader));
        if let Some(check) = check.filter(|check| !value.is_empty() && !(check.is_valid)(value)) {
            let shown = if URL_ANNOTATIONS.contains(&name) { redact_url(value) } else { value.to_owned() };
            let problem = format!("\"{shown}\" is not {}", check.requirement);
            let found = Diagnostic::new(Severity::Error, "refused-annotation", reader.at(name));
            reader.report(found.because(problem, of_this.consequence()));
            refusal = refusal.max(of_this);
        }
    }
    refusal
}

/// Whether snippets are validated. If the operator ignores them, they cause no refusal.
fn may_bring_configuration(context: &Context<'_>) -> bool {
    let is_critical = |level: &str| Some(level.eq_ignore_ascii_case("critical"));
    let ignored = context.inputs.options.hosts.unsupported_protection == UnsupportedProtection::Ignored;
    ignored || context.defaults.values.get(RISK_LEVEL, is_critical) == Some(true)
}

impl ValueCheck {
    fn applies(&self, reader: &Reader<'_>) -> bool {
        let has = |name| reader.value(name).is_some_and(|value| !value.is_empty());
        match self.when {
            CheckCondition::Always => true,
            CheckCondition::With(other) => has(other),
            CheckCondition::Without(other) => !has(other),
        }
    }
}

/// Letters, digits and `others`.
fn consists_of(text: &str, others: &str) -> bool {
    text.chars().all(|c| c.is_ascii_alphanumeric() || others.contains(c))
}

/// As `ValidateRegex` with `removeSpace`.
fn without_spaces(text: &str) -> String {
    text.replace(' ', "")
}

/// Whether an expression matches the whole text; for checks that need more than a character set.
fn covers(expression: &str, text: &str) -> bool {
    Pattern::shared(expression, Anchor::Both, false).is_ok_and(|pattern| pattern.is_match(text.as_bytes()))
}

fn is_switch(text: &str) -> bool {
    parse_bool(text).is_some()
}

/// `strconv.Atoi`.
fn is_number(text: &str) -> bool {
    text.parse::<i64>().is_ok()
}

fn are_ranges(text: &str) -> bool {
    parse_ranges(text).is_ok()
}

fn is_name(text: &str) -> bool {
    consists_of(&without_spaces(text), "-._~/:")
}

fn is_realm(text: &str) -> bool {
    consists_of(text, "-._~/: ")
}

fn is_url(text: &str) -> bool {
    consists_of(text, "-._~/:,?&=")
}

fn is_auth_url(text: &str) -> bool {
    consists_of(&without_spaces(text), "-._~/:,?&=$")
}

/// The original expression is not anchored.
fn is_auth_type(text: &str) -> bool {
    is_one_line(text, &["basic", "digest"])
}

/// The original expression is not anchored.
fn is_secret_type(text: &str) -> bool {
    is_one_line(text, &["auth-file", "auth-map"])
}

fn is_one_line(text: &str, words: &[&str]) -> bool {
    let text = without_spaces(text);
    words.iter().any(|word| text.contains(word)) && !text.contains(['\r', '\n'])
}

fn is_subject(text: &str) -> bool {
    text.starts_with("CN=")
}

fn is_page(text: &str) -> bool {
    const PAGE: &str = r"@[A-Za-z0-9_-]+|((https?://)?[A-Za-z0-9\-.]+(:[0-9]+)?)?(/[A-Za-z0-9\-_.]+)*/?";
    covers(PAGE, &without_spaces(text))
}

fn is_size(text: &str) -> bool {
    covers("[0-9]+[bkmgBKMG]?", &without_spaces(text))
}

fn is_connection(text: &str) -> bool {
    matches!(without_spaces(text).as_str(), "close" | "keep-alive")
}

fn are_statuses(text: &str) -> bool {
    covers("([4,5][0-9]{2},?)*", &without_spaces(text))
}

/// A DNS-1035 label.
fn is_service(text: &str) -> bool {
    text.len() <= 63 && covers("[a-z]([-a-z0-9]*[a-z0-9])?", text)
}

fn is_file(text: &str) -> bool {
    let text = without_spaces(text);
    !text.is_empty() && consists_of(&text, ".-_")
}

fn is_algorithm(text: &str) -> bool {
    let known = ["round_robin", "chash", "chashsubset", "sticky_balanced", "sticky_persistent", "ewma"];
    known.contains(&text.trim())
}

fn is_server_name(text: &str) -> bool {
    consists_of(text.trim(), r"-._~/:^$[](){}*+?|&=\")
}

fn are_server_names(text: &str) -> bool {
    text.split(',').all(is_server_name)
}

fn are_ciphers(text: &str) -> bool {
    covers("([A-Za-z0-9!:+_-]|@STRENGTH|@SECLEVEL=[0-5])*", &without_spaces(text))
}

fn is_hash(text: &str) -> bool {
    consists_of(&without_spaces(text), "-_${}")
}

fn is_path_with_captures(text: &str) -> bool {
    consists_of(&without_spaces(text), "-._~/:$")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `annotations/*/main.go`: what their validators take and refuse.
    #[test]
    fn values_are_refused_as_in_ingress_nginx() {
        for (name, good, bad) in [
            ("permanent-redirect", "/new?a=b,c", "https://x$request_uri"),
            ("permanent-redirect-code", "200", "3o1"),
            ("temporal-redirect", "https://a.test/", " https://a.test/"),
            ("custom-http-errors", "404, 503,", "404,302"),
            ("default-backend", "errors", "demo/errors"),
            ("auth-tls-error-page", "https://a.test:8443/x/", "https://a.test/?x=1"),
            ("auth-tls-error-page", "@named", "ftp://a.test"),
            ("auth-type", "basic ", "ntlm"),
            ("auth-url", "http://auth.demo/$host?x=1", "http://auth.demo/#x"),
            ("connection-proxy-header", "keep-alive", "upgrade"),
            ("limit-rps", "-1", "1.5"),
            ("limit-allowlist", "10.0.0.0/8, ::1", "office"),
            ("load-balance", " ewma", "fair"),
            ("server-alias", r"a.test, ~^www\d+\.a\.test$", "a.test;"),
            ("ssl-ciphers", "ALL:!aNULL:@STRENGTH", "ALL;"),
            ("upstream-hash-by", "$host ${uri}", "$host;x"),
            ("upstream-vhost", "$service_name.$namespace.svc.cluster.local", "a b"),
            ("x-forwarded-prefix", "/$1", "/a;b"),
            ("client-body-buffer-size", "8K", "8kb"),
        ] {
            let check = CHECKS.iter().find(|check| check.name == name).unwrap();
            assert!((check.is_valid)(good), "{name}: {good}");
            assert!(!(check.is_valid)(bad), "{name}: {bad}");
        }
    }
}
