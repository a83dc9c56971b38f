//! Probes from an access log of ingress-nginx, in its default format or JSON with common names for its variables. Only GET, HEAD
//! and OPTIONS requests are repeated.

use std::collections::{BTreeMap, HashMap};
use std::io::{self, BufRead, Read};
use std::sync::Arc;

use fairway_model::{HostPattern, Rule, VirtualHost};
use fairway_routing::Snapshot;
use serde_json::{Map, Value};

use crate::address::Schemes;
use crate::generate::{is_valid_request, name_of};
use crate::located::{is_of_object, located};
use crate::probe::{Probe, ProbeKind, Purpose, Scheme};

/// Maximum length of a line.
const MAX_LINE_BYTES: u64 = 64 * 1024;
/// Maximum number of targets with the same host and path but different queries.
const MAX_QUERIES_PER_PATH: usize = 3;
/// Maximum number of hosts that are probed for a line without a host.
const MAX_HOSTS_PER_LINE: usize = 4;

/// The probes from a log.
#[derive(Debug, Default)]
pub(crate) struct Log {
    /// In the order of the lines.
    pub(crate) probes: Vec<Probe>,
    /// Number of skipped lines by reason.
    pub(crate) skipped: BTreeMap<&'static str, usize>,
}

/// A line of the log.
#[derive(Debug, Default, PartialEq, Eq)]
struct Line {
    method: String,
    target: String,
    status: Option<u16>,
    scheme: Option<Scheme>,
    host: Option<String>,
    upstream: Option<String>,
}

/// Reads a log.
///
/// # Errors
/// Reading `log` fails.
pub(crate) fn read(mut log: impl BufRead, snapshot: &Snapshot, schemes: Schemes) -> io::Result<Log> {
    let mut reader =
        Reader { snapshot, schemes, hosts: hosts(snapshot), targets: HashMap::new(), found: Log::default() };
    let mut line = Vec::new();
    loop {
        line.clear();
        if log.by_ref().take(MAX_LINE_BYTES).read_until(b'\n', &mut line)? == 0 {
            return Ok(reader.found);
        }
        let text = String::from_utf8_lossy(&line);
        if let Err(reason) = reader.read_line(text.trim()) {
            *reader.found.skipped.entry(reason).or_default() += 1;
        }
    }
}

/// A host that leads to an upstream, and the scheme to probe it with.
type HostAndScheme = (Arc<str>, Scheme);
type HostAndPath = (Arc<str>, String);

struct Reader<'s> {
    snapshot: &'s Snapshot,
    schemes: Schemes,
    /// The hosts by the name of their upstream in ingress-nginx.
    hosts: HashMap<String, Vec<HostAndScheme>>,
    /// The targets by host and path.
    targets: HashMap<HostAndPath, Vec<(ProbeKind, String)>>,
    found: Log,
}

impl Reader<'_> {
    fn read_line(&mut self, text: &str) -> Result<(), &'static str> {
        if text.is_empty() {
            return Err("empty line");
        }
        let line = Line::read(text).ok_or("not a line of an access log of ingress-nginx")?;
        let kind = match line.method.as_str() {
            "GET" => ProbeKind::Get,
            "HEAD" => ProbeKind::Head,
            "OPTIONS" => ProbeKind::Options,
            "" => return Err("no request was received"),
            _ => return Err("method other than GET, HEAD and OPTIONS"),
        };
        if line.status == Some(101) {
            return Err("a WebSocket");
        }
        if !line.target.starts_with('/') {
            return Err("no path");
        }
        let hosts = self.hosts_of(&line, kind);
        if hosts.is_empty() {
            return Err("no host in the objects serves it");
        }
        let mut outcome = Err("the same as another line");
        for (host, scheme) in hosts {
            match self.add_probe(&host, scheme, kind, &line.target) {
                Ok(()) => outcome = Ok(()),
                Err(reason) if outcome.is_err() => outcome = Err(reason),
                Err(_) => {}
            }
        }
        outcome
    }

    fn add_probe(
        &mut self,
        host: &Arc<str>,
        scheme: Scheme,
        kind: ProbeKind,
        target: &str,
    ) -> Result<(), &'static str> {
        let probe = Probe::request(scheme, host, kind, target, Purpose::AccessLog);
        if !is_valid_request(&probe) {
            return Err("not a valid request");
        }
        let path = target.split('?').next().unwrap_or(target);
        let known_targets = self.targets.entry((Arc::clone(host), path.to_owned())).or_default();
        if known_targets.iter().any(|(other, known)| *other == kind && known == target) {
            return Err("the same as another line");
        }
        if known_targets.iter().filter(|(other, _)| *other == kind).count() >= MAX_QUERIES_PER_PATH {
            return Err("more than three queries of the same path");
        }
        known_targets.push((kind, target.to_owned()));
        self.found.probes.push(probe);
        Ok(())
    }

    /// The hosts of a line: the one it names, otherwise those whose rule for the target leads to its upstream.
    fn hosts_of(&self, line: &Line, kind: ProbeKind) -> Vec<HostAndScheme> {
        let serves = |host: &Arc<str>, scheme| {
            let probe = Probe::request(scheme, host, kind, &line.target, Purpose::AccessLog);
            located(self.snapshot, &probe)
        };
        if let Some(name) = &line.host {
            let name: Arc<str> = name.split(':').next().unwrap_or(name).to_ascii_lowercase().into();
            let line_scheme = line.scheme.unwrap_or(Scheme::Https);
            let found = serves(&name, self.schemes.preferred(line_scheme));
            let is_known = |host: &VirtualHost| {
                host.key.host != HostPattern::Any || found.rule.is_some_and(is_of_object)
            };
            let Some(host) = found.host.filter(|host| is_known(host)) else { return Vec::new() };
            let usual = if host.certificate.is_some() { Scheme::Https } else { Scheme::Http };
            return vec![(name, self.schemes.preferred(line.scheme.unwrap_or(usual)))];
        }
        let Some(upstream) = &line.upstream else { return Vec::new() };
        let candidates = self.hosts.get(upstream).into_iter().flatten();
        let fitting = candidates
            .filter(|(host, scheme)| {
                serves(host, *scheme).rule.is_some_and(|rule| upstream_name(rule) == *upstream)
            })
            .map(|(host, scheme)| (Arc::clone(host), self.schemes.preferred(line.scheme.unwrap_or(*scheme))));
        fitting.take(MAX_HOSTS_PER_LINE).collect()
    }
}

/// The hosts that lead to each upstream.
fn hosts(snapshot: &Snapshot) -> HashMap<String, Vec<HostAndScheme>> {
    let mut hosts: HashMap<String, Vec<HostAndScheme>> = HashMap::new();
    for host in snapshot.config().hosts.values().filter(|host| host.key.host != HostPattern::Any) {
        let scheme = if host.certificate.is_some() { Scheme::Https } else { Scheme::Http };
        let served = (name_of(&host.key.host), scheme);
        for rule in
            host.routes.iter().flat_map(|route| &route.rules).filter(|rule| !rule.labels.service.is_empty())
        {
            let known = hosts.entry(upstream_name(rule)).or_default();
            if !known.contains(&served) {
                known.push(served.clone());
            }
        }
    }
    hosts
}

/// The name of a rule's upstream in ingress-nginx.
fn upstream_name(rule: &Rule) -> String {
    let labels = &rule.labels;
    format!("{}-{}-{}", labels.namespace, labels.service, labels.service_port)
}

impl Line {
    fn read(text: &str) -> Option<Self> {
        match serde_json::from_str(text) {
            Ok(Value::Object(members)) => Self::parse_json(&members),
            _ => Self::parse_text(text),
        }
    }

    /// `$remote_addr - $remote_user [$time_local] "$request" $status $body_bytes_sent "$http_referer" "$http_user_agent"
    /// $request_length $request_time [$proxy_upstream_name] ...`. nginx writes a quote in a value as `\x22`.
    fn parse_text(text: &str) -> Option<Self> {
        let parts: Vec<&str> = text.split('"').collect();
        let [before, request, status, _, _, _, rest, ..] = *parts.as_slice() else { return None };
        if !before.contains('[') {
            return None;
        }
        let upstream = rest.split_once('[').and_then(|(_, rest)| rest.split_once(']')).map(|(name, _)| name);
        let mut line = Self {
            status: status.split_whitespace().next()?.parse().ok(),
            upstream: upstream.filter(|name| !name.is_empty()).map(str::to_owned),
            ..Self::default()
        };
        line.parse_request(request);
        Some(line)
    }

    fn parse_json(members: &Map<String, Value>) -> Option<Self> {
        let text = |names: &[&str]| {
            let values = names.iter().filter_map(|name| members.get(*name));
            values
                .filter_map(Value::as_str)
                .find(|value| !value.is_empty() && *value != "-")
                .map(str::to_owned)
        };
        let status = members.get("status").or(members.get("response_code"));
        let status = status.and_then(|it| it.as_u64().or_else(|| it.as_str()?.parse().ok()));
        let scheme = text(&["scheme", "x_scheme", "protocol_scheme"]);
        let mut line = Self {
            status: status.and_then(|status| u16::try_from(status).ok()),
            scheme: scheme.and_then(|scheme| match scheme.as_str() {
                "http" => Some(Scheme::Http),
                "https" => Some(Scheme::Https),
                _ => None,
            }),
            host: text(&["host", "vhost", "http_host", "server_name", "domain", "authority"]),
            upstream: text(&["proxy_upstream_name", "upstream_name", "proxyUpstreamName"]),
            ..Self::default()
        };
        match text(&["request"]) {
            Some(request) if request.contains(' ') => line.parse_request(&request),
            _ => {
                line.method = text(&["method", "request_method", "requestMethod"])?;
                line.target = text(&["request_uri", "uri", "path", "requestUrl", "url"])?;
                let query = text(&["args", "query_string", "request_query"]);
                if let (Some(query), false) = (query, line.target.contains('?')) {
                    line.target = format!("{}?{query}", line.target);
                }
            }
        }
        Some(line)
    }

    /// Parses `GET /path HTTP/1.1`. Leaves the method empty if it is not a request.
    fn parse_request(&mut self, request: &str) {
        if let [method, target, version] = *request.split(' ').collect::<Vec<_>>()
            && version.starts_with("HTTP/")
        {
            (self.method, self.target) = (method.to_owned(), target.to_owned());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEFAULT: &str = "10.0.0.9 - - [21/Nov/2026:10:00:00 +0000] \"GET /cart?x=1 HTTP/1.1\" 200 512 \"-\" \"curl/8.0\" 80 0.002 \
                           [shop-web-80] [] 10.1.0.1:8080 512 0.002 200 8a9b";

    #[test]
    fn a_line_of_the_default_format_has_a_request_and_an_upstream() {
        let line = Line::read(DEFAULT).unwrap();
        assert_eq!((line.method.as_str(), line.target.as_str()), ("GET", "/cart?x=1"));
        assert_eq!(
            (line.status, line.upstream.as_deref(), line.host),
            (Some(200), Some("shop-web-80"), None)
        );
    }

    #[test]
    fn json_is_read_by_the_names_of_the_variables() {
        for text in [
            r#"{"host": "a.test", "method": "GET", "uri": "/a", "args": "b=1", "status": "200", "scheme": "https"}"#,
            r#"{"vhost": "a.test", "request": "GET /a?b=1 HTTP/2.0", "status": 200, "x_scheme": "https"}"#,
        ] {
            let line = Line::read(text).unwrap();
            let expected = Line {
                method: "GET".into(),
                target: "/a?b=1".into(),
                status: Some(200),
                scheme: Some(Scheme::Https),
                host: Some("a.test".into()),
                upstream: None,
            };
            assert_eq!(line, expected, "{text}");
        }
    }

    #[test]
    fn invalid_lines_are_skipped_with_the_reason() {
        let snapshot = Snapshot::default();
        let log = format!(
            "\nhello\n{DEFAULT}\n{}\n{}\n{}\n{}\n{}\n",
            DEFAULT.replace("GET /cart?x=1 HTTP/1.1", "POST /cart HTTP/1.1"),
            DEFAULT.replace("GET /cart?x=1 HTTP/1.1", r"\x16\x03\x01"),
            DEFAULT.replace("GET /cart?x=1", "GET http://a.test/"),
            DEFAULT.replace("\" 200", "\" 101"),
            "x".repeat(200_000),
        );
        let found = read(log.as_bytes(), &snapshot, Schemes::Both).unwrap();
        assert!(found.probes.is_empty());
        let expected = [
            ("a WebSocket", 1),
            ("method other than GET, HEAD and OPTIONS", 1),
            ("empty line", 1),
            ("no host in the objects serves it", 1),
            ("no path", 1),
            ("no request was received", 1),
            ("not a line of an access log of ingress-nginx", 1 + 4),
        ];
        assert_eq!(found.skipped, expected.into());
    }
}
