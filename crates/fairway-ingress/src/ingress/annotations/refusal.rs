//! Values for which ingress-nginx does not configure an Ingress at all: its parser ends with the first `ValidationError`, or
//! with an annotation that is too risky (`annotations.go`, `Extract`). Such an Ingress is not served here either; where the value
//! protects, its paths are closed, so that no wider path of another Ingress serves them. Of other values that ingress-nginx refuses
//! it takes the default, or closes the paths; these are read by their families.

use fairway_model::shown_url;
use fairway_objects::annotations::text::{ranges, switch};
use fairway_objects::diagnostic::{Diagnostic, Severity};
use fairway_objects::options::UnsupportedProtection;
use fairway_pattern::{Anchor, Pattern};

use crate::ingress::context::Context;
use crate::ingress::reader::Reader;

/// What becomes of an Ingress.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Refusal {
    /// It is served.
    None,
    /// ingress-nginx would not configure it.
    NotServed,
    /// The same, and the value protects: its paths answer 404, whatever other Ingresses say of wider ones.
    Closed,
}

impl Refusal {
    fn of(annotation: &str) -> Self {
        let protects = CRITICAL.contains(&annotation) || annotation.starts_with("auth-");
        if protects { Self::Closed } else { Self::NotServed }
    }

    fn consequence(self) -> &'static str {
        match self {
            Self::Closed => "the paths of the Ingress answer 404",
            _ => "the Ingress is not served, as in ingress-nginx",
        }
    }
}

/// The key of the ConfigMap that says which annotations are too risky.
const RISK_LEVEL: &str = "annotations-risk-level";

/// What a value must be for its Ingress to be configured.
struct Check {
    name: &'static str,
    when: When,
    /// As the end of a sentence.
    what: &'static str,
    is_good: fn(&str) -> bool,
}

/// When ingress-nginx looks at an annotation.
#[derive(Clone, Copy)]
enum When {
    Always,
    /// This other annotation has a value.
    With(&'static str),
    /// This other annotation has no value.
    Without(&'static str),
}

/// The annotations that are refused whatever they say, unless the risk level is Critical.
const CRITICAL: [&str; 5] =
    ["auth-snippet", "configuration-snippet", "modsecurity-snippet", "server-snippet", "stream-snippet"];

/// The annotations that may hold a password: what is wrong with one of them does not repeat it.
const URLS: [&str; 4] = ["auth-tls-error-page", "auth-url", "permanent-redirect", "temporal-redirect"];

const NAME: &str = "made of letters, digits and -._~/:";
const NUMBER: &str = "a whole number";
const SERVER_NAME: &str = "made of letters, digits and what regular expressions have";
const SWITCH: &str = "true or false";
const URL: &str = "a URL of letters, digits and -._~/:,?&=";

const CHECKS: &[Check] = &[
    check("auth-realm", When::With("auth-type"), "made of letters, digits, spaces and -._~/:", is_realm),
    check("auth-secret-type", When::With("auth-type"), "auth-file or auth-map", is_secret_type),
    check("auth-tls-error-page", When::With("auth-tls-secret"), "a URL, a path or a named location", is_page),
    check("auth-tls-match-cn", When::With("auth-tls-secret"), "a pattern that begins with CN=", is_subject),
    check("auth-tls-pass-certificate-to-upstream", When::With("auth-tls-secret"), SWITCH, is_switch),
    check("auth-tls-secret", When::Always, NAME, is_name),
    check("auth-type", When::Always, "basic or digest", is_auth_type),
    check("auth-url", When::Always, "a URL of letters, digits, variables and -._~/:,?&=", is_auth_url),
    check("client-body-buffer-size", When::Always, "a size such as 8, 8k or 8m", is_size),
    check("connection-proxy-header", When::Always, "close or keep-alive", is_connection),
    check("custom-http-errors", When::Always, "a list of statuses from 400 to 599", are_statuses),
    check("default-backend", When::Always, "the name of a Service", is_service),
    check("fastcgi-index", When::Always, "the name of a file", is_file),
    check("fastcgi-params-configmap", When::Always, NAME, is_name),
    check("from-to-www-redirect", When::Always, SWITCH, is_switch),
    check("http2-push-preload", When::Always, SWITCH, is_switch),
    check("limit-allowlist", When::Always, "a list of addresses and ranges", are_ranges),
    check("limit-connections", When::Always, NUMBER, is_number),
    check("limit-rpm", When::Always, NUMBER, is_number),
    check("limit-rps", When::Always, NUMBER, is_number),
    check("limit-whitelist", When::Without("limit-allowlist"), "a list of addresses and ranges", are_ranges),
    check("load-balance", When::Always, "an algorithm (round_robin, ewma)", is_algorithm),
    check("permanent-redirect", When::Without("temporal-redirect"), URL, is_url),
    check("permanent-redirect-code", When::Without("temporal-redirect"), NUMBER, is_number),
    check("proxy-ssl-secret", When::Always, NAME, is_name),
    check("relative-redirects", When::Always, SWITCH, is_switch),
    check("server-alias", When::Always, SERVER_NAME, are_server_names),
    check("ssl-ciphers", When::Always, "a list of cipher suites", are_ciphers),
    check("ssl-passthrough", When::Always, SWITCH, is_switch),
    check("temporal-redirect", When::Always, URL, is_url),
    check("temporal-redirect-code", When::With("temporal-redirect"), NUMBER, is_number),
    check("upstream-hash-by", When::Always, "made of letters, digits and -_${}", is_hash),
    check("upstream-hash-by-subset", When::Always, SWITCH, is_switch),
    check("upstream-hash-by-subset-size", When::Always, NUMBER, is_number),
    check("upstream-vhost", When::Always, SERVER_NAME, is_server_name),
    check("x-forwarded-prefix", When::Always, "a path with captures $1 to $9", is_path_with_captures),
];

const fn check(name: &'static str, when: When, what: &'static str, is_good: fn(&str) -> bool) -> Check {
    Check { name, when, what, is_good }
}

/// Whether ingress-nginx would not configure the Ingress. Reports each annotation for which it would not.
pub(crate) fn refusal(reader: &mut Reader<'_>, context: &Context<'_>) -> Refusal {
    let risky = may_bring_configuration(context);
    let mut refusal = Refusal::None;
    for (name, value) in reader.untrimmed().collect::<Vec<_>>() {
        let of_this = Refusal::of(name);
        if CRITICAL.contains(&name) && !risky {
            let which = match context.inputs.options.configmap {
                Some(_) => "the settings ConfigMap",
                None => "a settings ConfigMap, which --configmap names,",
            };
            let problem = format!(
                "{name} is nginx configuration, which is refused unless {RISK_LEVEL} in {which} is Critical"
            );
            let found = Diagnostic::new(Severity::Error, "unsupported-protection", reader.at(name));
            reader.report(found.because(problem, of_this.consequence()));
            refusal = refusal.max(of_this);
        }
        let check = CHECKS.iter().find(|check| check.name == name && check.applies(reader));
        if let Some(check) = check.filter(|check| !value.is_empty() && !(check.is_good)(value)) {
            let shown = if URLS.contains(&name) { shown_url(value) } else { value.to_owned() };
            let problem = format!("\"{shown}\" is not {}", check.what);
            let found = Diagnostic::new(Severity::Error, "refused-annotation", reader.at(name));
            reader.report(found.because(problem, of_this.consequence()));
            refusal = refusal.max(of_this);
        }
    }
    refusal
}

/// Whether snippets are looked at. Where the operator has them ignored they refuse nothing.
fn may_bring_configuration(context: &Context<'_>) -> bool {
    let is_critical = |level: &str| Some(level.eq_ignore_ascii_case("critical"));
    let ignored = context.inputs.options.hosts.unsupported_protection == UnsupportedProtection::Ignored;
    ignored || context.defaults.values.get(RISK_LEVEL, is_critical) == Some(true)
}

impl Check {
    fn applies(&self, reader: &Reader<'_>) -> bool {
        let has = |name| reader.value(name).is_some_and(|value| !value.is_empty());
        match self.when {
            When::Always => true,
            When::With(other) => has(other),
            When::Without(other) => !has(other),
        }
    }
}

/// Letters, digits and `others`.
fn has_only(text: &str, others: &str) -> bool {
    text.chars().all(|c| c.is_ascii_alphanumeric() || others.contains(c))
}

/// As `ValidateRegex` with `removeSpace` has it.
fn spaceless(text: &str) -> String {
    text.replace(' ', "")
}

/// Whether an expression covers the text; used where a list of characters is not enough.
fn covers(expression: &str, text: &str) -> bool {
    Pattern::shared(expression, Anchor::Both, false).is_ok_and(|pattern| pattern.is_match(text.as_bytes()))
}

fn is_switch(text: &str) -> bool {
    switch(text).is_some()
}

/// `strconv.Atoi`.
fn is_number(text: &str) -> bool {
    text.parse::<i64>().is_ok()
}

fn are_ranges(text: &str) -> bool {
    ranges(text).is_ok()
}

fn is_name(text: &str) -> bool {
    has_only(&spaceless(text), "-._~/:")
}

fn is_realm(text: &str) -> bool {
    has_only(text, "-._~/: ")
}

fn is_url(text: &str) -> bool {
    has_only(text, "-._~/:,?&=")
}

fn is_auth_url(text: &str) -> bool {
    has_only(&spaceless(text), "-._~/:,?&=$")
}

/// The expression is not anchored there.
fn is_auth_type(text: &str) -> bool {
    is_one_line(text, &["basic", "digest"])
}

/// The expression is not anchored there.
fn is_secret_type(text: &str) -> bool {
    is_one_line(text, &["auth-file", "auth-map"])
}

fn is_one_line(text: &str, words: &[&str]) -> bool {
    let text = spaceless(text);
    words.iter().any(|word| text.contains(word)) && !text.contains(['\r', '\n'])
}

fn is_subject(text: &str) -> bool {
    text.starts_with("CN=")
}

fn is_page(text: &str) -> bool {
    const PAGE: &str = r"@[A-Za-z0-9_-]+|((https?://)?[A-Za-z0-9\-.]+(:[0-9]+)?)?(/[A-Za-z0-9\-_.]+)*/?";
    covers(PAGE, &spaceless(text))
}

fn is_size(text: &str) -> bool {
    covers("[0-9]+[bkmgBKMG]?", &spaceless(text))
}

fn is_connection(text: &str) -> bool {
    matches!(spaceless(text).as_str(), "close" | "keep-alive")
}

fn are_statuses(text: &str) -> bool {
    covers("([4,5][0-9]{2},?)*", &spaceless(text))
}

/// A DNS-1035 label.
fn is_service(text: &str) -> bool {
    text.len() <= 63 && covers("[a-z]([-a-z0-9]*[a-z0-9])?", text)
}

fn is_file(text: &str) -> bool {
    let text = spaceless(text);
    !text.is_empty() && has_only(&text, ".-_")
}

fn is_algorithm(text: &str) -> bool {
    let known = ["round_robin", "chash", "chashsubset", "sticky_balanced", "sticky_persistent", "ewma"];
    known.contains(&text.trim())
}

fn is_server_name(text: &str) -> bool {
    has_only(text.trim(), r"-._~/:^$[](){}*+?|&=\")
}

fn are_server_names(text: &str) -> bool {
    text.split(',').all(is_server_name)
}

fn are_ciphers(text: &str) -> bool {
    covers("([A-Za-z0-9!:+_-]|@STRENGTH|@SECLEVEL=[0-5])*", &spaceless(text))
}

fn is_hash(text: &str) -> bool {
    has_only(&spaceless(text), "-_${}")
}

fn is_path_with_captures(text: &str) -> bool {
    has_only(&spaceless(text), "-._~/:$")
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
            assert!((check.is_good)(good), "{name}: {good}");
            assert!(!(check.is_good)(bad), "{name}: {bad}");
        }
    }
}
