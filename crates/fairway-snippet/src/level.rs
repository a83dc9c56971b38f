//! Reads the directives of one block outside of the rewrite phase: headers, addresses, and directives without effect
//! here. Anything else is rejected.

use std::sync::Arc;

use fairway_model::{ADD_HEADER_STATUSES, RealIp};
use ipnet::IpNet;

use crate::own_fields::is_ingress_nginx_header;
use crate::problem::Problem;
use crate::program::is_rewrite_directive;
use crate::syntax::Directive;

/// The context of directives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BlockKind {
    /// `configuration-snippet`, or `location-snippet` of the ConfigMap.
    Path,
    /// `server-snippet`.
    Host,
    /// `http-snippet`.
    Http,
    /// `location` in a `server-snippet`.
    Location,
    /// `if` of a path or a `location`.
    If,
    /// `if` in a server block, where nginx allows only the rewrite phase.
    HostIf,
}

/// A header as written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WrittenHeader {
    pub(crate) line: u32,
    pub(crate) origin: Arc<str>,
    pub(crate) name: String,
    /// Text with variables; an empty value removes the header, or adds none.
    pub(crate) value: String,
    /// Response statuses; empty matches all.
    pub(crate) statuses: Vec<u16>,
}

/// The directives of a block.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct BlockSettings {
    /// `more_set_headers`, `more_clear_headers`.
    pub(crate) headers_more: Vec<WrittenHeader>,
    /// `add_header`.
    pub(crate) adds: Vec<WrittenHeader>,
    /// `expires`, which overrides that of outer blocks; `off` sets no header.
    pub(crate) expires: Option<Vec<WrittenHeader>>,
    /// `proxy_hide_header`, in lower case.
    pub(crate) hidden_headers: Vec<String>,
    /// `more_set_input_headers`, `more_clear_input_headers`.
    pub(crate) input_headers: Vec<WrittenHeader>,
    /// `proxy_set_header`.
    pub(crate) request_headers: Vec<WrittenHeader>,
    pub(crate) access: Access,
    pub(crate) client: Option<RealIp>,
    pub(crate) default_type: Option<String>,
    pub(crate) unlogged: bool,
    /// `gzip off`.
    pub(crate) gzip_off: bool,
    /// `client_max_body_size`, for `location` blocks of snippets: ingress-nginx sets its own in other locations. 0 is
    /// unlimited.
    pub(crate) max_body: Option<u64>,
    /// `satisfy any`, with its line.
    pub(crate) satisfy_any: Option<u32>,
}

/// `allow` and `deny`: the first rule that covers the address applies, and without one everybody may pass.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Access {
    pub(crate) rules: Vec<(bool, Vec<IpNet>)>,
    /// Line of the first one.
    pub(crate) line: u32,
}

impl Access {
    /// Whether a rule covers all addresses, in either family.
    pub(crate) fn covers_everyone(ranges: &[IpNet]) -> bool {
        let covers_family = |of_family: fn(&IpNet) -> bool| {
            ranges.iter().any(|range| range.prefix_len() == 0 && of_family(range))
        };
        covers_family(|range| matches!(range, IpNet::V4(_)))
            && covers_family(|range| matches!(range, IpNet::V6(_)))
    }
}

/// Headers that belong to the connection or to message framing.
const HOP_HEADERS: [&str; 11] = [
    "connection",
    "content-length",
    "expect",
    "host",
    "keep-alive",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "date",
];

/// Directives that ingress-nginx writes in every location: nginx rejects a second one there, and one outside has no
/// effect.
const LOCATION_DIRECTIVES: &[(&str, &str)] = &[
    ("client_body_buffer_size", "client-body-buffer-size"),
    ("client_max_body_size", "proxy-body-size"),
    ("proxy_buffer_size", "proxy-buffer-size"),
    ("proxy_buffering", "proxy-buffering"),
    ("proxy_buffers", "proxy-buffers-number"),
    ("proxy_connect_timeout", "proxy-connect-timeout"),
    ("proxy_cookie_domain", "proxy-cookie-domain"),
    ("proxy_cookie_path", "proxy-cookie-path"),
    ("proxy_http_version", "proxy-http-version"),
    ("proxy_max_temp_file_size", "proxy-max-temp-file-size"),
    ("proxy_next_upstream", "proxy-next-upstream"),
    ("proxy_next_upstream_timeout", "proxy-next-upstream-timeout"),
    ("proxy_next_upstream_tries", "proxy-next-upstream-tries"),
    ("proxy_read_timeout", "proxy-read-timeout"),
    ("proxy_redirect", "proxy-redirect-from and proxy-redirect-to"),
    ("proxy_request_buffering", "proxy-request-buffering"),
    ("proxy_send_timeout", "proxy-send-timeout"),
    ("port_in_redirect", "use-port-in-redirects"),
];

/// Alternatives to unsupported directives.
const ALTERNATIVES: &[(&str, &str)] = &[
    ("auth_basic", "use auth-type and auth-secret"),
    ("auth_basic_user_file", "use auth-type and auth-secret"),
    ("auth_request", "use auth-url"),
    ("error_page", "use custom-http-errors and default-backend"),
    ("limit_conn", "use limit-connections"),
    ("limit_rate", "use limit-rate"),
    ("limit_rate_after", "use limit-rate-after"),
    ("limit_req", "use limit-rps or limit-rpm"),
    ("mirror", "use mirror-target"),
    ("more_set_header", "did you mean more_set_headers?"),
    ("proxy_pass", "name the Service as the backend of a path"),
    ("proxy_ssl_name", "use proxy-ssl-name"),
    ("proxy_ssl_server_name", "use proxy-ssl-server-name"),
    ("proxy_ssl_verify", "use proxy-ssl-verify"),
    ("root", "serve files from a Service"),
    ("alias", "serve files from a Service"),
    ("try_files", "serve files from a Service"),
    ("ssl_ciphers", "use ssl-ciphers"),
    ("ssl_protocols", "use the key ssl-protocols of the ConfigMap"),
    ("client_body_timeout", "use the key client-body-timeout of the ConfigMap"),
    ("keepalive_timeout", "use the key keep-alive of the ConfigMap"),
    ("server_name", "use server-alias, or a rule for the host"),
    ("gzip", "use the key use-gzip of the ConfigMap"),
    ("expires", "use more_set_headers with Cache-Control"),
];

impl BlockSettings {
    /// Reads the directives outside of the rewrite phase.
    pub(crate) fn read(directives: &[Directive], block: BlockKind) -> Result<Self, Problem> {
        let mut level = Self::default();
        for directive in directives.iter().filter(|it| !is_rewrite_directive(&it.name)) {
            let is_location = directive.name == "location" && block == BlockKind::Host;
            let is_map = directive.name == "map" && block == BlockKind::Http;
            if is_location || is_map {
                continue;
            }
            let text = directive.text();
            level.read_directive(directive, block).map_err(|reason| {
                let problem = Problem::new(directive.line, &text, reason);
                match ALTERNATIVES.iter().find(|(name, _)| *name == directive.name) {
                    Some((_, instead)) => problem.instead(*instead),
                    None => problem,
                }
            })?;
        }
        Ok(level)
    }

    fn read_directive(&mut self, directive: &Directive, block: BlockKind) -> Result<(), String> {
        let words: Vec<&str> = directive.words.iter().map(String::as_str).collect();
        if directive.block.is_some() {
            return Err("such a block does not work".to_owned());
        }
        if block == BlockKind::HostIf {
            return Err("nginx takes it in no if of a server".to_owned());
        }
        if let Some((_, annotation)) = LOCATION_DIRECTIVES.iter().find(|(name, _)| *name == directive.name) {
            return match block {
                BlockKind::Host | BlockKind::Http if directive.name == "client_max_body_size" => {
                    self.max_body = Some(size(&words).ok_or("it is no size")?);
                    Ok(())
                }
                BlockKind::Host | BlockKind::Http => Ok(()),
                _ => Err(format!(
                    "ingress-nginx writes it itself, and nginx refuses it twice; use {annotation}"
                )),
            };
        }
        match (directive.name.as_str(), &*words) {
            ("more_set_headers", words) => {
                self.headers_more.extend(read_headers_more(
                    directive,
                    words,
                    HeaderAction::Set,
                    &check_response_header,
                )?);
            }
            ("more_clear_headers", words) => {
                self.headers_more.extend(read_headers_more(
                    directive,
                    words,
                    HeaderAction::Clear,
                    &check_response_header,
                )?);
            }
            ("more_set_input_headers", words) if block != BlockKind::If => {
                self.input_headers.extend(read_headers_more(
                    directive,
                    words,
                    HeaderAction::Set,
                    &check_input_header,
                )?);
            }
            ("more_clear_input_headers", words) if block != BlockKind::If => {
                self.input_headers.extend(read_headers_more(
                    directive,
                    words,
                    HeaderAction::Clear,
                    &check_input_header,
                )?);
            }
            ("add_header", [name, value]) => self.add_header(directive, name, value, &ADD_HEADER_STATUSES)?,
            ("add_header", [name, value, "always"]) => self.add_header(directive, name, value, &[])?,
            ("expires", _) if self.expires.is_some() => {
                return Err("nginx takes it once in a block".to_owned());
            }
            ("expires", ["off"]) => self.expires = Some(Vec::new()),
            ("expires", ["epoch" | "max"]) if matches!(block, BlockKind::Host | BlockKind::Http) => {
                return Err("paths would inherit it, which works in configuration-snippet only".to_owned());
            }
            ("expires", ["epoch"]) => {
                self.expires = Some(expires(directive, "Thu, 01 Jan 1970 00:00:01 GMT", "no-cache")?);
            }
            ("expires", ["max"]) => {
                let fields = expires(directive, "Thu, 31 Dec 2037 23:55:55 GMT", "max-age=315360000")?;
                self.expires = Some(fields);
            }
            // Every location has its own, so those of an outer block do not apply.
            ("proxy_set_header", [_, _]) if matches!(block, BlockKind::Host | BlockKind::Http) => {}
            ("proxy_set_header", [name, value]) if block == BlockKind::Path => {
                check_set_header(name, value)?;
                self.request_headers.push(written_header(directive, name, value, &[])?);
            }
            ("proxy_hide_header", [name]) if block != BlockKind::If => {
                check_name(name)?;
                check_not_hop_header(&name.to_ascii_lowercase())?;
                self.hidden_headers.push(name.to_ascii_lowercase());
            }
            // In ingress-nginx, `more_clear_headers Server` removes it regardless of what is passed.
            ("proxy_pass_header", ["Server"]) if block != BlockKind::If => {}
            ("allow" | "deny", [range]) if block != BlockKind::If => {
                if self.access.rules.is_empty() {
                    self.access.line = directive.line;
                }
                self.access.rules.push((directive.name == "allow", ranges(range)?));
            }
            ("satisfy", ["all"]) if block != BlockKind::If => {}
            ("satisfy", ["any"]) if block != BlockKind::If => self.satisfy_any = Some(directive.line),
            ("access_log", ["off"]) if block != BlockKind::If => self.unlogged = true,
            ("default_type", [value]) if !matches!(block, BlockKind::If | BlockKind::Http) => {
                check_value(value)?;
                self.default_type = Some((*value).to_owned());
            }
            ("set_real_ip_from" | "real_ip_header" | "real_ip_recursive", _) if block != BlockKind::If => {}
            ("gzip", ["off"]) => self.gzip_off = true,
            ("gzip_vary", ["on" | "off"]) | ("gzip_types" | "gzip_min_length", _)
                if block != BlockKind::If => {}
            (name, _) if name.contains("_by_lua") => return Err("Lua is not run".to_owned()),
            _ => return Err("this directive, in this form and place, is none of those that work".to_owned()),
        }
        Ok(())
    }

    fn add_header(
        &mut self,
        directive: &Directive,
        name: &str,
        value: &str,
        statuses: &[u16],
    ) -> Result<(), String> {
        let lower = name.to_ascii_lowercase();
        match lower.as_str() {
            // Response framing is decided by the proxy.
            "content-length" if value == "0" => return Ok(()),
            "last-modified" | "etag" => return Err(format!("nginx replaces {name}; use more_set_headers")),
            _ => {}
        }
        check_response_header(&lower)?;
        self.adds.push(written_header(directive, name, value, statuses)?);
        Ok(())
    }
}

/// Bytes, with suffix `k`, `m` or `g`.
fn size(words: &[&str]) -> Option<u64> {
    let [text] = words else { return None };
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let factor = match unit {
        "" => 1,
        "k" | "K" => 1 << 10,
        "m" | "M" => 1 << 20,
        "g" | "G" => 1 << 30,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(factor)
}

/// The headers of `expires`.
fn expires(directive: &Directive, at: &str, cache: &str) -> Result<Vec<WrittenHeader>, String> {
    let fields = [("Expires", at), ("Cache-Control", cache)];
    fields
        .into_iter()
        .map(|(name, value)| written_header(directive, name, value, &ADD_HEADER_STATUSES))
        .collect()
}

/// The client address, by `set_real_ip_from`, `real_ip_header` and `real_ip_recursive`.
pub(crate) fn real_ip(directives: &[Directive]) -> Result<Option<RealIp>, Problem> {
    let (mut trusted, mut header, mut recursive, mut last) = (Vec::new(), None, false, None);
    for directive in directives {
        let problem = |reason: String| Problem::new(directive.line, &directive.text(), reason);
        match (directive.name.as_str(), &*directive.words) {
            ("set_real_ip_from", [range]) => trusted.extend(ranges(range).map_err(problem)?),
            ("real_ip_header", _) if header.is_some() => {
                return Err(problem("nginx takes it once".to_owned()));
            }
            ("real_ip_header", [name]) if name != "proxy_protocol" => {
                header = Some(name.to_ascii_lowercase());
            }
            ("real_ip_recursive", [switch]) => recursive = switch == "on",
            ("set_real_ip_from" | "real_ip_header" | "real_ip_recursive", _) => {
                return Err(problem("it works with one range, or one header".to_owned()));
            }
            _ => continue,
        }
        last = Some(directive);
    }
    let Some(last) = last else { return Ok(None) };
    let problem = |reason: &str| Err(Problem::new(last.line, &last.text(), reason));
    // nginx: default of `real_ip_header`.
    let header = header.unwrap_or_else(|| "x-real-ip".to_owned());
    if trusted.is_empty() {
        return problem("without set_real_ip_from nobody is believed");
    }
    if is_ingress_nginx_header(&header) && header != "x-forwarded-for" {
        return problem("what clients say in it is left out before");
    }
    if header == "x-forwarded-for" && !recursive {
        return problem(
            "of X-Forwarded-For the last address that is not trusted counts, as with real_ip_recursive on",
        );
    }
    Ok(Some(RealIp { header: header.into(), trusted, last_only: !recursive }))
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum HeaderAction {
    Set,
    Clear,
}

/// The headers of a headers-more directive.
fn read_headers_more(
    directive: &Directive,
    words: &[&str],
    how: HeaderAction,
    check_name_allowed: &dyn Fn(&str) -> Result<(), String>,
) -> Result<Vec<WrittenHeader>, String> {
    let (mut statuses, mut rest) = (Vec::new(), words);
    while let [option, following @ ..] = rest {
        match (*option, following) {
            ("-s", [list, following @ ..]) => {
                for status in list.split_ascii_whitespace() {
                    statuses.push(status.parse::<u16>().map_err(|_| format!("{status} is no status"))?);
                }
                rest = following;
            }
            (option, _) if option.starts_with('-') => {
                return Err(format!("its option {option} does not work"));
            }
            _ => break,
        }
    }
    statuses.sort_unstable();
    if rest.is_empty() {
        return Err("it names no header".to_owned());
    }
    if let Some(option) = rest.iter().find(|word| word.starts_with('-')) {
        return Err(format!("its option {option} stands behind a header, and works in front only"));
    }
    let field = |word: &&str| {
        if word.starts_with(char::is_whitespace) {
            return Err("nginx sends the space before the name, which no client reads".to_owned());
        }
        let (name, value) = match (how, word.split_once(':')) {
            (HeaderAction::Set, Some((name, value))) => (name.trim(), value.trim()),
            (HeaderAction::Set, None) | (HeaderAction::Clear, Some(_)) => (word.trim(), ""),
            (HeaderAction::Clear, None) => (word.trim(), ""),
        };
        if name.contains('*') {
            return Err(format!("{name} stands for several headers; name each"));
        }
        check_name_allowed(&name.to_ascii_lowercase())?;
        written_header(directive, name, value, &statuses)
    };
    rest.iter().map(field).collect()
}

fn written_header(
    directive: &Directive,
    name: &str,
    value: &str,
    statuses: &[u16],
) -> Result<WrittenHeader, String> {
    check_name(name)?;
    check_value(value)?;
    if !value.is_empty() && value.trim().is_empty() {
        return Err("nginx sends the header with an empty value".to_owned());
    }
    Ok(WrittenHeader {
        line: directive.line,
        origin: directive.origin(),
        name: name.to_owned(),
        value: value.to_owned(),
        statuses: statuses.to_vec(),
    })
}

fn check_name(name: &str) -> Result<(), String> {
    let is_token = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
    match !name.is_empty() && name.bytes().all(is_token) {
        true => Ok(()),
        false => Err(format!("\"{name}\" is no name of a header")),
    }
}

fn check_value(value: &str) -> Result<(), String> {
    match value.bytes().any(|b| b < b' ' && b != b'\t' || b == 0x7f) {
        true => Err("its value has a line break or another control character".to_owned()),
        false => Ok(()),
    }
}

fn check_response_header(lower: &str) -> Result<(), String> {
    match lower {
        "location" => Err("nginx makes Location absolute, or not, by who sets it".to_owned()),
        _ => check_not_hop_header(lower),
    }
}

fn check_not_hop_header(lower: &str) -> Result<(), String> {
    match HOP_HEADERS.contains(&lower) {
        true => Err(format!("{lower} belongs to the connection or to how the message is framed")),
        false => Ok(()),
    }
}

fn check_input_header(lower: &str) -> Result<(), String> {
    check_not_hop_header(lower)?;
    match is_ingress_nginx_header(lower) {
        true => Err(format!("{lower} is made of other parts of the request, which would change with it")),
        false => Ok(()),
    }
}

/// Whether `proxy_set_header` may set a header to a value.
pub(crate) fn check_set_header(name: &str, value: &str) -> Result<(), String> {
    let lower = name.to_ascii_lowercase();
    match HOP_HEADERS.contains(&lower.as_str()) {
        true => Err(format!(
            "{name} would be sent twice, or belongs to the connection; {}",
            hop_header_hint(&lower)
        )),
        false => check_name(name).and_then(|()| check_value(value)),
    }
}

fn hop_header_hint(lower: &str) -> &'static str {
    match lower {
        "host" => "use upstream-vhost",
        "connection" | "upgrade" => "WebSockets work without it",
        _ => "leave it out",
    }
}

/// An address, a range, or `all`.
fn ranges(text: &str) -> Result<Vec<IpNet>, String> {
    if text == "all" {
        return Ok(vec!["0.0.0.0/0".parse().expect("a range"), "::/0".parse().expect("a range")]);
    }
    let address = || text.parse::<std::net::IpAddr>().map(IpNet::from);
    let range = text.parse::<IpNet>().or_else(|_| address());
    range.map(|range| vec![range.trunc()]).map_err(|_| format!("{text} is no address and no range"))
}
