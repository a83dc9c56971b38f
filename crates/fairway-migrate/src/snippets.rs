//! What the lines of an nginx snippet ask for, and the annotation that says the same. A snippet is read to make a proposal, never
//! to serve by it.

use std::collections::BTreeMap;

use serde_json::{Value, json};

/// What a snippet could become.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Proposal {
    /// Annotations with their values, sorted by name.
    pub(crate) annotations: Vec<(String, String)>,
    /// Directives that nothing here says.
    pub(crate) left: Vec<String>,
}

/// Reads a snippet.
pub(crate) fn proposal(snippet: &str) -> Proposal {
    let mut wanted = Wanted::default();
    for directive in directives(snippet) {
        if wanted.take(&directive).is_none() {
            wanted.left.push(directive.text);
        }
    }
    wanted.proposal()
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
    trusted: Vec<String>,
    real_ip_header: Option<String>,
    redirect: Option<Value>,
    plain: BTreeMap<&'static str, String>,
    left: Vec<String>,
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
            ["return", status, url] => self.redirect = Some(redirect(status, url)?),
            ["return", status] => self.deny.push(everything(status)?),
            ["deny", "all"] if directive.block.is_empty() => self.deny.push(everything("403")?),
            ["deny", range] => self.list("denylist-source-range", range),
            ["allow", range] => self.list("whitelist-source-range", range),
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

    fn list(&mut self, annotation: &'static str, range: &str) {
        let list = self.plain.entry(annotation).or_default();
        if !list.is_empty() {
            list.push(',');
        }
        list.push_str(range);
    }

    fn proposal(mut self) -> Proposal {
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
        annotations.extend(plain.map(|(name, value)| (format!("nginx.ingress.kubernetes.io/{name}"), value)));
        annotations.sort();
        Proposal { annotations, left: self.left }
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

    fn annotations(snippet: &str) -> Vec<String> {
        let found = proposal(snippet);
        assert_eq!(found.left, [""; 0], "{snippet}");
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
                "client_max_body_size 8m; proxy_read_timeout 30s; allow 10.0.0.0/8; allow 192.0.2.0/24;"
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
            let found = proposal(snippet);
            assert_eq!(found.annotations, []);
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
}
