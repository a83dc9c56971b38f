//! What the lines of an nginx snippet ask for, and the annotation that says the same. A snippet is read to make a proposal, never
//! to serve by it.

use std::collections::BTreeMap;

use serde_json::{Value, json};

/// What a snippet could become.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Proposal {
    /// Annotations with their values, sorted by name.
    pub(crate) annotations: Vec<(String, String)>,
    /// Directives that need a decision, each with what to use instead.
    pub(crate) hints: Vec<(String, String)>,
    /// Directives that no annotation replaces.
    pub(crate) left: Vec<String>,
}

/// Reads a snippet. `prefix` is that of the annotations of ingress-nginx.
pub(crate) fn proposal(snippet: &str, prefix: &str) -> Proposal {
    let mut wanted = Wanted::default();
    for directive in directives(snippet) {
        if wanted.take(&directive).is_some() {
            continue;
        }
        match hint(&directive, prefix) {
            Some(hint) => wanted.hints.push((directive.text, hint)),
            None => wanted.left.push(directive.text),
        }
    }
    wanted.decide_access();
    wanted.proposal(prefix)
}

/// Which annotations do what a directive does, where their values are not in the snippet.
fn hint(directive: &Directive, prefix: &str) -> Option<String> {
    let words: Vec<&str> = directive.words.iter().map(String::as_str).collect();
    let annotations: &[&str] = match *words.as_slice() {
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

/// One directive of nginx with its words, and those of the block behind it.
#[derive(Debug)]
struct Directive {
    words: Vec<String>,
    block: Vec<Directive>,
    /// On one line, as it was written.
    text: String,
}

/// What the directives ask for.
#[derive(Default)]
struct Wanted {
    request: Edit,
    response: Edit,
    deny: Vec<Value>,
    access: Vec<Access>,
    trusted: Vec<String>,
    real_ip_header: Option<String>,
    redirect: Option<Value>,
    plain: BTreeMap<&'static str, String>,
    hints: Vec<(String, String)>,
    left: Vec<String>,
}

/// An `allow` or a `deny`. The first that matches the client's address decides (`ngx_http_access_module`).
struct Access {
    allows: bool,
    /// An address range, or `all`.
    range: String,
}

#[derive(Default)]
struct Edit {
    set: BTreeMap<String, String>,
    add: BTreeMap<String, String>,
    remove: Vec<String>,
}

impl Wanted {
    /// `None` where nothing here says what the directive does.
    fn take(&mut self, directive: &Directive) -> Option<()> {
        let words: Vec<&str> = directive.words.iter().map(String::as_str).collect();
        match *words.as_slice() {
            ["proxy_set_header" | "more_set_input_headers", name, ""] => {
                self.request.remove.push(name.into());
            }
            ["proxy_set_header", name, value] if is_plain(value) && !is_hop(name) => {
                self.request.set.insert(name.into(), value.into());
            }
            ["more_set_input_headers", ref fields @ ..] => {
                self.request.set.extend(split(fields)?);
            }
            ["more_clear_input_headers", ref names @ ..] => {
                self.request.remove.extend(names.iter().map(|name| (*name).to_owned()));
            }
            ["add_header", name, value] | ["add_header", name, value, "always"] if is_plain(value) => {
                self.response.add.insert(name.into(), value.into());
            }
            ["more_set_headers", ref fields @ ..] => {
                self.response.set.extend(split(fields)?);
            }
            ["more_clear_headers", ref names @ ..] => {
                self.response.remove.extend(names.iter().map(|name| (*name).to_owned()));
            }
            ["proxy_hide_header", name] => self.response.remove.push(name.into()),
            ["return", status, url] => self.redirect(redirect(status, url)?),
            ["rewrite", pattern, url, flag] => self.redirect(rewritten(pattern, url, flag)?),
            ["return", status] => self.deny.push(everything(status)?),
            [verb @ ("allow" | "deny"), range] if directive.block.is_empty() => {
                self.access.push(Access { allows: verb == "allow", range: range.into() });
            }
            ["set_real_ip_from", range] => self.trusted.push(range.into()),
            ["real_ip_header", name] => self.real_ip_header = Some(name.into()),
            ["real_ip_recursive", "on"] => {}
            ["client_max_body_size", size] => self.set("proxy-body-size", size),
            ["proxy_read_timeout", time] => {
                self.set("proxy-read-timeout", time.strip_suffix('s').unwrap_or(time));
            }
            ["proxy_send_timeout", time] => {
                self.set("proxy-send-timeout", time.strip_suffix('s').unwrap_or(time));
            }
            ["proxy_connect_timeout", time] => {
                self.set("proxy-connect-timeout", time.strip_suffix('s').unwrap_or(time));
            }
            ["access_log", "off"] => self.set("enable-access-log", "false"),
            ["if", ref condition @ ..] => self.deny.push(denied_if(condition, &directive.block)?),
            _ => return None,
        }
        Some(())
    }

    fn set(&mut self, annotation: &'static str, value: &str) {
        self.plain.insert(annotation, value.to_owned());
    }

    /// The first one answers the request.
    fn redirect(&mut self, redirect: Value) {
        self.redirect.get_or_insert(redirect);
    }

    /// Makes address lists of `allow` and `deny`, where those have the same meaning: the denylist goes before the allow list,
    /// and an allow list refuses everybody else.
    fn decide_access(&mut self) {
        let mut rules = std::mem::take(&mut self.access);
        // Nothing after a rule for all clients is looked at.
        let end = rules.iter().position(|rule| rule.range == "all");
        let all = end.map(|at| rules.drain(at..).next().is_some_and(|rule| rule.allows));
        let denied = rules.iter().position(|rule| rule.allows).unwrap_or(rules.len());
        let allowed =
            rules[denied..].iter().position(|rule| !rule.allows).map_or(rules.len(), |it| denied + it);
        let has_allow = allowed > denied;
        let is_list = all == Some(false) && has_allow;
        // A `deny` after the allow list says what `deny all` says, and an `allow` after such a `deny` makes exceptions.
        let has_exceptions = match is_list {
            true => rules[allowed..].iter().any(|rule| rule.allows),
            false => allowed < rules.len(),
        };
        if has_exceptions {
            let lines = rules.iter().map(|rule| format!("{} {}", rule.verb(), rule.range));
            self.left.extend(lines);
            self.left.extend(all.map(|allows| format!("{} all", if allows { "allow" } else { "deny" })));
            return;
        }
        if all == Some(false) && !has_allow {
            self.deny.extend(everything("403"));
            return;
        }
        for rule in &rules[..denied] {
            self.list("denylist-source-range", &rule.range);
        }
        for rule in &rules[denied..allowed] {
            match is_list {
                true => self.list("whitelist-source-range", &rule.range),
                false => {
                    let hint = "restricts no client without deny all";
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
        let mut own =
            |name: &str, value: Value| annotations.push((format!("fairway.dev/{name}"), value.to_string()));
        if !self.deny.is_empty() {
            own("deny", json!({"when": self.deny}));
        }
        match (self.real_ip_header, self.trusted) {
            (Some(header), trusted) if !trusted.is_empty() => {
                own("real-ip", json!({"header": header, "trusted": trusted}));
            }
            (Some(header), _) => self.left.push(format!("real_ip_header {header}")),
            (None, trusted) => {
                self.left.extend(trusted.iter().map(|range| format!("set_real_ip_from {range}")));
            }
        }
        if let Some(redirect) = self.redirect {
            own("redirect", redirect);
        }
        for (name, edit) in [("request-headers", self.request), ("response-headers", self.response)] {
            if let Some(edit) = edit.value() {
                own(name, edit);
            }
        }
        let plain = self.plain.into_iter();
        annotations.extend(plain.map(|(name, value)| (format!("{prefix}/{name}"), value)));
        annotations.sort();
        Proposal { annotations, hints: self.hints, left: self.left }
    }
}

impl Access {
    fn verb(&self) -> &'static str {
        if self.allows { "allow" } else { "deny" }
    }
}

impl Edit {
    fn value(self) -> Option<Value> {
        let Self { set, add, remove } = self;
        let mut value = serde_json::Map::new();
        let mut put =
            |name: &str, is_empty: bool, of: Value| _ = (!is_empty).then(|| value.insert(name.into(), of));
        put("add", add.is_empty(), json!(add));
        put("remove", remove.is_empty(), json!(remove));
        put("set", set.is_empty(), json!(set));
        (!value.is_empty()).then(|| value.into())
    }
}

/// `Name: value` each.
fn split(fields: &[&str]) -> Option<Vec<(String, String)>> {
    let field = |field: &&str| {
        let (name, value) = field.split_once(':')?;
        is_plain(value.trim()).then(|| (name.trim().to_owned(), value.trim().to_owned()))
    };
    fields.iter().map(field).collect()
}

/// Without variables.
fn is_plain(value: &str) -> bool {
    !value.contains('$')
}

fn is_hop(name: &str) -> bool {
    ["connection", "host", "upgrade", "te", "transfer-encoding", "content-length"]
        .contains(&name.to_ascii_lowercase().as_str())
}

/// `return 301 https://new.example$request_uri`, and the like.
fn redirect(status: &str, url: &str) -> Option<Value> {
    let status: u16 = status.parse().ok().filter(|status| [301, 302, 303, 307, 308].contains(status))?;
    if is_plain(url) && (url.starts_with("http://") || url.starts_with("https://")) {
        return Some(json!({"status": status, "url": url}));
    }
    // The request's own URL at another scheme or host.
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
    // A redirect writes no port that is the usual one, and another port than that is the client's.
    let port = if scheme == "https" { 443 } else { 80 };
    let is_name = host.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._".contains(&b));
    let is_fixed = is_name && !path.contains('?');
    is_fixed.then(|| json!({"status": status, "scheme": scheme, "host": host, "port": port, "path": path}))
}

/// All requests are refused.
fn everything(status: &str) -> Option<Value> {
    (status == "403").then(|| json!({"path": "/"}))
}

/// `if ($request_method = PUT) { return 403; }`, and the like.
fn denied_if(condition: &[&str], block: &[Directive]) -> Option<Value> {
    let [then] = block else { return None };
    if then.words != ["return", "403"] && then.words != ["deny", "all"] {
        return None;
    }
    let condition = condition.join(" ");
    let condition = condition.strip_prefix('(')?.strip_suffix(')')?.trim();
    let mut words = condition.splitn(3, ' ');
    let (variable, operator, value) = (words.next()?.strip_prefix('$')?, words.next()?, words.next()?.trim());
    let value = value.trim_matches(['"', '\'']);
    let pattern = match operator {
        "=" => escaped(value),
        "~" => format!(".*(?:{value}).*"),
        "~*" => format!("(?i).*(?:{value}).*"),
        _ => return None,
    };
    match variable {
        "request_method" if operator == "=" => Some(json!({"methods": [value]})),
        "request_method" => {
            let names = value.trim_matches(['^', '$', '(', ')']).split('|').collect::<Vec<_>>();
            names
                .iter()
                .all(|name| name.bytes().all(|b| b.is_ascii_uppercase()))
                .then(|| json!({"methods": names}))
        }
        "request_uri" | "uri" if operator != "=" => Some(json!({"path": pattern})),
        _ => {
            if let Some(header) = variable.strip_prefix("http_") {
                return Some(json!({"headers": {header.replace('_', "-"): pattern}}));
            }
            variable.strip_prefix("arg_").map(|name| json!({"query": {name: pattern}}))
        }
    }
}

/// A regular expression of this text alone.
fn escaped(text: &str) -> String {
    text.chars().fold(String::new(), |mut escaped, c| {
        if r"\.+*?()|[]{}^$".contains(c) {
            escaped.push('\\');
        }
        escaped.push(c);
        escaped
    })
}

/// The directives of a configuration of nginx, one level of blocks below another. What is cut off counts as if it were not.
fn directives(text: &str) -> Vec<Directive> {
    let mut left = tokens(text).into_iter();
    let mut directives = Vec::new();
    // A brace that closes nothing is not the end.
    while left.len() > 0 {
        directives.extend(block(&mut left));
    }
    directives
}

#[derive(Debug, PartialEq, Eq)]
enum Token {
    Word(String),
    End,
    Open,
    Close,
}

fn block(tokens: &mut std::vec::IntoIter<Token>) -> Vec<Directive> {
    let mut directives = Vec::new();
    let mut words: Vec<String> = Vec::new();
    loop {
        let (inner, ends) = match tokens.next() {
            Some(Token::Word(word)) => {
                words.push(word);
                continue;
            }
            None | Some(Token::Close) => (Vec::new(), true),
            Some(Token::End) => (Vec::new(), false),
            Some(Token::Open) => (block(tokens), false),
        };
        if !words.is_empty() {
            let mut text = words.join(" ");
            if !inner.is_empty() {
                let within: Vec<_> = inner.iter().map(|directive| directive.text.as_str()).collect();
                text += &format!(" {{ {} }}", within.join("; "));
            }
            directives.push(Directive { words: std::mem::take(&mut words), block: inner, text });
        }
        if ends {
            return directives;
        }
    }
}

fn tokens(text: &str) -> Vec<Token> {
    let mut tokens = Vec::new();
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            _ if c.is_whitespace() => {}
            ';' => tokens.push(Token::End),
            '{' => tokens.push(Token::Open),
            '}' => tokens.push(Token::Close),
            '#' => while chars.next_if(|c| *c != '\n').is_some() {},
            '"' | '\'' => {
                let mut word = String::new();
                while let Some(inner) = chars.next().filter(|inner| *inner != c) {
                    word.push(if inner == '\\' { chars.next().unwrap_or('\\') } else { inner });
                }
                tokens.push(Token::Word(word));
            }
            _ => {
                let mut word = String::from(c);
                let mut variable = c == '$';
                while let Some(next) = chars.peek().copied() {
                    // `${name}` belongs to a word.
                    let opens = next == '{' && variable;
                    if next.is_whitespace()
                        || next == ';'
                        || (next == '{' && !opens)
                        || next == '}' && !word.contains("${")
                    {
                        break;
                    }
                    variable = next == '$';
                    word.push(next);
                    chars.next();
                }
                tokens.push(Token::Word(word));
            }
        }
    }
    tokens
}

#[cfg(test)]
mod tests {
    use super::*;

    const PREFIX: &str = "nginx.ingress.kubernetes.io";

    fn annotations(snippet: &str) -> Vec<String> {
        let found = proposal(snippet, PREFIX);
        assert_eq!((found.left, found.hints), (Vec::new(), Vec::new()), "{snippet}");
        found.annotations.into_iter().map(|(name, value)| format!("{name} {value}")).collect()
    }

    #[test]
    fn headers_become_edits() {
        assert_eq!(
            annotations(
                "proxy_set_header X-Team \"the shop\"; # ours\nproxy_set_header X-Debug '';\n\
                 more_set_headers \"X-Frame-Options: DENY\" 'Referrer-Policy: no-referrer';\nmore_clear_headers Server;\n\
                 add_header Vary Origin always;"
            ),
            [
                r#"fairway.dev/request-headers {"remove":["X-Debug"],"set":{"X-Team":"the shop"}}"#,
                r#"fairway.dev/response-headers {"add":{"Vary":"Origin"},"remove":["Server"],"set":{"Referrer-Policy":"no-referrer","X-Frame-Options":"DENY"}}"#,
            ]
        );
    }

    #[test]
    fn conditions_that_refuse_become_deny() {
        assert_eq!(
            annotations(
                "if ($http_user_agent ~* \"(curl|bot)\") { return 403; }\nif ($request_method ~ ^(PUT|DELETE)$) { return 403; }\n\
                 if ($arg_debug = 1) { deny all; }"
            ),
            [concat!(
                r#"fairway.dev/deny {"when":[{"headers":{"user-agent":"(?i).*(?:(curl|bot)).*"}},"#,
                r#"{"methods":["PUT","DELETE"]},{"query":{"debug":"1"}}]}"#
            )]
        );
    }

    #[test]
    fn redirects_addresses_and_limits_have_annotations() {
        assert_eq!(
            annotations("return 301 https://new.example.com$request_uri;"),
            [r#"fairway.dev/redirect {"host":"new.example.com","scheme":"https","status":301}"#]
        );
        assert_eq!(
            annotations(
                "set_real_ip_from 10.0.0.0/8; set_real_ip_from 192.0.2.1; real_ip_header CF-Connecting-IP;"
            ),
            [r#"fairway.dev/real-ip {"header":"CF-Connecting-IP","trusted":["10.0.0.0/8","192.0.2.1"]}"#]
        );
        assert_eq!(
            annotations(
                "client_max_body_size 8m; proxy_read_timeout 30s; allow 10.0.0.0/8; allow 192.0.2.0/24; \
                 deny all;"
            ),
            [
                "nginx.ingress.kubernetes.io/proxy-body-size 8m",
                "nginx.ingress.kubernetes.io/proxy-read-timeout 30",
                "nginx.ingress.kubernetes.io/whitelist-source-range 10.0.0.0/8,192.0.2.0/24",
            ]
        );
    }

    #[test]
    fn what_nothing_says_is_left() {
        let left = |snippet: &str| {
            let found = proposal(snippet, PREFIX);
            assert_eq!((found.annotations, found.hints), (Vec::new(), Vec::new()));
            found.left
        };
        assert_eq!(left("proxy_set_header X-User $remote_user;"), ["proxy_set_header X-User $remote_user"]);
        assert_eq!(left("rewrite ^/a /b last;"), ["rewrite ^/a /b last"]);
        assert_eq!(left("if ($host = a) { rewrite ^ /b; }"), ["if ($host = a) { rewrite ^ /b }"]);
        assert_eq!(left("return 200 'ok';"), ["return 200 ok"]);
        assert_eq!(left("set_real_ip_from 10.0.0.0/8;"), ["set_real_ip_from 10.0.0.0/8"]);
        assert_eq!(left("proxy_pass http://${upstream}/a;"), ["proxy_pass http://${upstream}/a"]);
        assert_eq!(left("content_by_lua_block { ngx.say(1) }"), ["content_by_lua_block { ngx.say(1) }"]);
        assert_eq!(left("} ;; proxy_pass"), ["proxy_pass"]);
    }

    #[test]
    fn deny_all_after_an_allow_is_the_end_of_an_allow_list() {
        let allowed = "nginx.ingress.kubernetes.io/whitelist-source-range 10.0.0.0/8";
        let denied = |range: &str| format!("nginx.ingress.kubernetes.io/denylist-source-range {range}");
        let everything = r#"fairway.dev/deny {"when":[{"path":"/"}]}"#;
        assert_eq!(annotations("allow 10.0.0.0/8; deny all;"), [allowed]);
        assert_eq!(
            annotations("deny 10.1.0.0/16; allow 10.0.0.0/8; deny all;"),
            [&denied("10.1.0.0/16"), allowed]
        );
        assert_eq!(annotations("allow 10.0.0.0/8; deny 10.1.0.0/16; deny all; allow 192.0.2.1;"), [allowed]);
        assert_eq!(annotations("deny 192.0.2.1; allow all; deny all;"), [denied("192.0.2.1")]);
        // The first rule that matches decides.
        assert_eq!(annotations("deny all; allow 10.0.0.0/8;"), [everything]);
        assert_eq!(annotations("deny 10.1.0.0/16; deny all;"), [everything]);
        let exceptions = "allow 10.1.0.0/16; deny 10.0.0.0/8; allow 0.0.0.0/0; deny all";
        let found = proposal(exceptions, PREFIX);
        assert_eq!(found.annotations, []);
        assert_eq!(found.left, exceptions.split("; ").collect::<Vec<_>>());
        assert_eq!(proposal("allow 10.0.0.0/8;", PREFIX).hints.len(), 1, "it restricts nobody");
    }

    #[test]
    fn annotations_have_the_prefix_that_is_read() {
        let found = proposal("client_max_body_size 8m; auth_request /auth;", "nginx.example.com");
        assert_eq!(found.annotations, [("nginx.example.com/proxy-body-size".to_owned(), "8m".to_owned())]);
        assert_eq!(
            found.hints,
            [("auth_request /auth".to_owned(), "use nginx.example.com/auth-url".to_owned())]
        );
    }

    #[test]
    fn a_rewrite_of_every_path_to_a_fixed_url_is_a_redirect() {
        assert_eq!(
            annotations("rewrite ^ https://new.example.com/docs permanent;"),
            [concat!(
                r#"fairway.dev/redirect {"host":"new.example.com","path":"/docs","port":443,"#,
                r#""scheme":"https","status":301}"#
            )]
        );
        assert_eq!(
            annotations("rewrite ^/(.*) http://new.example.com/docs? redirect;"),
            [r#"fairway.dev/redirect {"status":302,"url":"http://new.example.com/docs"}"#]
        );
        for line in [
            "rewrite ^/old$ https://new.example.com/ permanent",
            "rewrite ^ https://new.example.com$request_uri permanent",
            "rewrite ^/(.*) https://new.example.com/$1 permanent",
            "rewrite ^ https://new.example.com permanent",
            "rewrite ^ https://new.example.com/a%20b permanent",
            "rewrite ^ https://new.example.com/?a=b permanent",
            "rewrite ^ https://new.example.com:8443/ permanent",
            "rewrite ^ /docs permanent",
            "rewrite ^ https://new.example.com/docs last",
        ] {
            let found = proposal(line, PREFIX);
            assert_eq!((found.annotations, found.left), (Vec::new(), vec![line.to_owned()]));
        }
    }

    #[test]
    fn what_needs_values_from_elsewhere_has_a_hint() {
        let snippet =
            "error_page 404 /404.html; auth_basic \"staff\"; limit_req zone=one burst=5; auth_basic off;";
        let found = proposal(snippet, "n");
        assert_eq!(found.annotations, []);
        assert_eq!(found.left, ["auth_basic off"]);
        let hints: Vec<_> = found.hints.iter().map(|(line, hint)| format!("{line}: {hint}")).collect();
        assert_eq!(
            hints,
            [
                "error_page 404 /404.html: use n/custom-http-errors and n/default-backend",
                "auth_basic staff: use n/auth-type and n/auth-secret",
                "limit_req zone=one burst=5: use n/limit-rps",
            ]
        );
    }
}
