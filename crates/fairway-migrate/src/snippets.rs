//! Proposes annotations that replace the lines of an nginx snippet, including snippets that Fairway supports. Uses the same parser
//! as the translation of snippets.

mod denied;
mod directives;

use std::collections::BTreeMap;

use fairway_objects::annotations::{is_hop_header, text};
use serde_json::{Value, json};

use directives::{Directive, directives};

/// The annotations that could replace a snippet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Proposal {
    /// Annotations with their values, sorted by name.
    pub(crate) annotations: Vec<(String, String)>,
    /// Directives that need a decision, each with a hint.
    pub(crate) hints: Vec<(String, String)>,
    /// Directives that no annotation replaces.
    pub(crate) remaining: Vec<String>,
}

/// Makes the proposal for a snippet. `prefix` is the prefix of ingress-nginx annotations.
pub(crate) fn proposal(snippet: &str, prefix: &str) -> Proposal {
    let mut read = ReadDirectives::default();
    let directives = match directives(snippet) {
        Ok(directives) => directives,
        Err(problem) => return Proposal { remaining: vec![problem.to_string()], ..Proposal::default() },
    };
    for directive in directives {
        if read.read_directive(&directive).is_some() {
            continue;
        }
        match hint(&directive, prefix) {
            Some(hint) => read.hints.push((directive.text, hint)),
            None => read.remaining.push(directive.text),
        }
    }
    read.decide_access();
    read.proposal(prefix)
}

/// The annotations that replace a directive but need values that the snippet does not contain.
fn hint(directive: &Directive, prefix: &str) -> Option<String> {
    let words: Vec<&str> = directive.words.iter().map(String::as_str).collect();
    let annotations: &[&str] = match *words.as_slice() {
        ["if", ref condition @ ..] => return denied::hint(condition, &directive.block),
        ["auth_request" | "auth_basic", "off"] => return None,
        ["error_page", ..] => &["custom-http-errors", "default-backend"],
        ["auth_request", ..] => &["auth-url"],
        ["auth_basic" | "auth_basic_user_file", ..] => &["auth-type", "auth-secret"],
        ["limit_req", ..] => &["limit-rps"],
        _ => return None,
    };
    let names: Vec<_> = annotations.iter().map(|name| format!("{prefix}/{name}")).collect();
    Some(format!("use {}", names.join(" and ")))
}

/// The settings of the directives read so far.
#[derive(Default)]
struct ReadDirectives {
    request: HeaderChanges,
    response: HeaderChanges,
    deny: Vec<Value>,
    access: Vec<Access>,
    trusted: Vec<String>,
    real_ip_header: Option<String>,
    redirect: Option<Value>,
    plain: BTreeMap<&'static str, String>,
    hints: Vec<(String, String)>,
    remaining: Vec<String>,
}

/// An `allow` or `deny` rule. The first rule that matches the client address decides (`ngx_http_access_module`).
struct Access {
    allows: bool,
    /// An address range, or `all`.
    range: String,
}

#[derive(Default)]
struct HeaderChanges {
    set: BTreeMap<String, String>,
    add: BTreeMap<String, String>,
    remove: Vec<String>,
}

impl ReadDirectives {
    /// Reads a directive. `None` if no annotation replaces it.
    fn read_directive(&mut self, directive: &Directive) -> Option<()> {
        let words: Vec<&str> = directive.words.iter().map(String::as_str).collect();
        match *words.as_slice() {
            ["proxy_set_header" | "more_set_input_headers" | "more_clear_input_headers", ..] => {
                self.read_request_header(&words)?;
            }
            ["add_header", name, value] | ["add_header", name, value, "always"] if is_plain(value) => {
                self.response.add.insert(name.into(), value.into());
            }
            ["more_set_headers", ref fields @ ..] => {
                self.response.set.extend(split_fields(fields)?);
            }
            ["more_clear_headers", ref names @ ..] => {
                self.response.remove.extend(names.iter().map(|name| (*name).to_owned()));
            }
            ["proxy_hide_header", name] => self.response.remove.push(name.into()),
            ["return", status, url] => self.redirect(redirect(status, url)?),
            ["rewrite", pattern, url, flag] => self.redirect(rewritten(pattern, url, flag)?),
            ["return", status] => self.deny.push(match_all(status)?),
            [verb @ ("allow" | "deny"), range] if directive.block.is_empty() => {
                self.access.push(Access { allows: verb == "allow", range: range.into() });
            }
            ["set_real_ip_from", range] => self.trusted.push(range.into()),
            ["real_ip_header", name] => self.real_ip_header = Some(name.into()),
            ["real_ip_recursive", "on"] => {}
            ["client_max_body_size", size] => self.set("proxy-body-size", size),
            ["proxy_read_timeout", time] => self.set("proxy-read-timeout", &seconds(time)?),
            ["proxy_send_timeout", time] => self.set("proxy-send-timeout", &seconds(time)?),
            ["proxy_connect_timeout", time] => self.set("proxy-connect-timeout", &seconds(time)?),
            ["access_log", "off"] => self.set("enable-access-log", "false"),
            ["if", ref condition @ ..] => self.deny.push(denied::denied_if(condition, &directive.block)?),
            _ => return None,
        }
        Some(())
    }

    /// Reads a directive for request headers. `None` if the annotation cannot express it.
    fn read_request_header(&mut self, words: &[&str]) -> Option<()> {
        let HeaderChanges { set, remove, .. } = &mut self.request;
        match *words {
            [_, name, ""] => remove.push(request_header_name(name)?),
            ["proxy_set_header", name, value] if is_plain(value) => {
                set.insert(request_header_name(name)?, value.into());
            }
            ["more_set_input_headers", ref fields @ ..] => {
                let fields = split_fields(fields)?;
                fields.iter().try_for_each(|(name, _)| request_header_name(name).map(drop))?;
                set.extend(fields);
            }
            ["more_clear_input_headers", ref names @ ..] => {
                remove
                    .extend(names.iter().map(|name| request_header_name(name)).collect::<Option<Vec<_>>>()?);
            }
            _ => return None,
        }
        Some(())
    }

    fn set(&mut self, annotation: &'static str, value: &str) {
        self.plain.insert(annotation, value.to_owned());
    }

    /// Sets the redirect. The first one wins.
    fn redirect(&mut self, redirect: Value) {
        self.redirect.get_or_insert(redirect);
    }

    /// Turns `allow` and `deny` rules into address lists if these mean the same: the denylist takes precedence over the allowlist,
    /// and an allowlist refuses all other clients.
    fn decide_access(&mut self) {
        let mut rules = std::mem::take(&mut self.access);
        // A rule for all clients makes the following rules unreachable.
        let end = rules.iter().position(|rule| rule.range == "all");
        let all = end.map(|at| rules.drain(at..).next().is_some_and(|rule| rule.allows));
        let denied = rules.iter().position(|rule| rule.allows).unwrap_or(rules.len());
        let allowed =
            rules[denied..].iter().position(|rule| !rule.allows).map_or(rules.len(), |it| denied + it);
        let has_allow = allowed > denied;
        let is_list = all == Some(false) && has_allow;
        // A `deny` after the allowlist is redundant with `deny all`, and an `allow` after such a `deny` makes an exception.
        let has_exceptions = match is_list {
            true => rules[allowed..].iter().any(|rule| rule.allows),
            false => allowed < rules.len(),
        };
        if has_exceptions {
            let lines = rules.iter().map(|rule| format!("{} {}", rule.verb(), rule.range));
            self.remaining.extend(lines);
            self.remaining.extend(all.map(|allows| format!("{} all", if allows { "allow" } else { "deny" })));
            return;
        }
        if all == Some(false) && !has_allow {
            self.deny.extend(match_all("403"));
            return;
        }
        for rule in &rules[..denied] {
            self.list("denylist-source-range", &rule.range);
        }
        for rule in &rules[denied..allowed] {
            match is_list {
                true => self.list("whitelist-source-range", &rule.range),
                false => {
                    let hint = "has no effect without deny all";
                    self.hints.push((format!("allow {}", rule.range), hint.to_owned()));
                }
            }
        }
    }

    fn list(&mut self, annotation: &'static str, range: &str) {
        let list = self.plain.entry(annotation).or_default();
        if !list.is_empty() {
            list.push(',');
        }
        list.push_str(range);
    }

    fn proposal(mut self, prefix: &str) -> Proposal {
        let mut annotations: Vec<(String, String)> = Vec::new();
        let mut propose =
            |name: &str, value: Value| annotations.push((format!("fairway.dev/{name}"), value.to_string()));
        if !self.deny.is_empty() {
            propose("deny", json!({"when": self.deny}));
        }
        match (self.real_ip_header, self.trusted) {
            (Some(header), trusted) if !trusted.is_empty() => {
                propose("real-ip", json!({"header": header, "trusted": trusted}));
            }
            (Some(header), _) => self.remaining.push(format!("real_ip_header {header}")),
            (None, trusted) => {
                self.remaining.extend(trusted.iter().map(|range| format!("set_real_ip_from {range}")));
            }
        }
        if let Some(redirect) = self.redirect {
            propose("redirect", redirect);
        }
        for (name, edit) in [("request-headers", self.request), ("response-headers", self.response)] {
            if let Some(edit) = edit.value() {
                propose(name, edit);
            }
        }
        let plain = self.plain.into_iter();
        annotations.extend(plain.map(|(name, value)| (format!("{prefix}/{name}"), value)));
        annotations.sort();
        Proposal { annotations, hints: self.hints, remaining: self.remaining }
    }
}

impl Access {
    fn verb(&self) -> &'static str {
        if self.allows { "allow" } else { "deny" }
    }
}

impl HeaderChanges {
    fn value(self) -> Option<Value> {
        let Self { set, add, remove } = self;
        let mut value = serde_json::Map::new();
        let mut put = |name: &str, is_empty: bool, entry: Value| {
            _ = (!is_empty).then(|| value.insert(name.into(), entry));
        };
        put("add", add.is_empty(), json!(add));
        put("remove", remove.is_empty(), json!(remove));
        put("set", set.is_empty(), json!(set));
        (!value.is_empty()).then(|| value.into())
    }
}

/// Splits `Name: value` fields.
fn split_fields(fields: &[&str]) -> Option<Vec<(String, String)>> {
    let field = |field: &&str| {
        let (name, value) = field.split_once(':')?;
        is_plain(value.trim()).then(|| (name.trim().to_owned(), value.trim().to_owned()))
    };
    fields.iter().map(field).collect()
}

/// Whether a value has no variables and is a single line.
fn is_plain(value: &str) -> bool {
    !value.contains(['$', '\r', '\n'])
}

/// The name of a request header, if `request-headers` can change it.
fn request_header_name(name: &str) -> Option<String> {
    (!is_hop_header(name)).then(|| name.to_owned())
}

/// A duration in whole seconds, rounded up, as annotations write it.
fn seconds(time: &str) -> Option<String> {
    let time = text::parse_duration(time).filter(|time| !time.is_zero())?;
    Some(time.as_millis().div_ceil(1000).to_string())
}

/// `return 301 https://new.example$request_uri`, and the like.
fn redirect(status: &str, url: &str) -> Option<Value> {
    let status: u16 = status.parse().ok().filter(|status| [301, 302, 303, 307, 308].contains(status))?;
    if is_plain(url) && (url.starts_with("http://") || url.starts_with("https://")) {
        return Some(json!({"status": status, "url": url}));
    }
    // The URL of the request with another scheme or host.
    let (scheme, rest) = url.split_once("://")?;
    let host = rest.strip_suffix("$request_uri")?;
    let mut value = serde_json::Map::from_iter([("status".to_owned(), json!(status))]);
    match scheme {
        "http" | "https" => _ = value.insert("scheme".into(), json!(scheme)),
        "$scheme" => {}
        _ => return None,
    }
    match host {
        "$host" | "$http_host" | "$server_name" => {}
        _ if is_plain(host) && !host.contains('/') => _ = value.insert("host".into(), json!(host)),
        _ => return None,
    }
    (value.len() > 1).then(|| value.into())
}

/// `rewrite ^ https://new.example/docs permanent`, and the like: a redirect of every request to a fixed URL.
///
/// nginx appends the query unless the URL ends in `?`, and decodes escapes in the URL (`ngx_http_script_regex_end_code`), so
/// one with escapes or variables has no exact counterpart.
fn rewritten(pattern: &str, url: &str, flag: &str) -> Option<Value> {
    const EVERY_PATH: [&str; 8] = ["^", "^/", ".*", "^.*", "^/.*", "(.*)", "^(.*)", "^/(.*)"];
    let status = match flag {
        "permanent" => 301,
        "redirect" => 302,
        _ => return None,
    };
    let (scheme, rest) = url.split_once("://").filter(|(scheme, _)| matches!(*scheme, "http" | "https"))?;
    let is_literal = |b: u8| b.is_ascii_alphanumeric() || b"-._~:/?@!&'()*+,;=".contains(&b);
    if !EVERY_PATH.contains(&pattern) || !url.bytes().all(is_literal) || rest.starts_with(['/', '?']) {
        return None;
    }
    if let Some(whole) = url.strip_suffix('?') {
        let is_whole = !whole.contains('?');
        return is_whole.then(|| json!({"status": status, "url": whole}));
    }
    let (host, path) = rest.split_at(rest.find('/')?);
    // A redirect omits the default port, and otherwise uses the port of the client.
    let port = if scheme == "https" { 443 } else { 80 };
    let is_name = host.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._".contains(&b));
    let is_fixed = is_name && !path.contains('?');
    is_fixed.then(|| json!({"status": status, "scheme": scheme, "host": host, "port": port, "path": path}))
}

/// A condition that refuses all requests.
fn match_all(status: &str) -> Option<Value> {
    (status == "403").then(|| json!({"path": "/"}))
}

#[cfg(test)]
mod tests;
