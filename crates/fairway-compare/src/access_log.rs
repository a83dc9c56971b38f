//! Probes from an access log of ingress-nginx: its default format, or JSON with names that people give its variables. What has
//! effects is not repeated: only GET, HEAD and OPTIONS.

use std::collections::{BTreeMap, HashMap};
use std::io::{self, BufRead, Read};
use std::sync::Arc;

use fairway_model::{HostPattern, Rule, VirtualHost};
use fairway_routing::Snapshot;
use serde_json::{Map, Value};

use crate::address::Schemes;
use crate::generate::{is_askable, name_of};
use crate::located::{is_of_object, located};
use crate::probe::{Ask, Probe, Purpose, Scheme};

/// The longest line that is read.
const LONGEST_LINE: u64 = 64 * 1024;
/// Targets of one path on one host that are asked for; they differ in their queries.
const QUERIES: usize = 3;
/// Hosts that are asked for the target of a line without a host.
const HOSTS: usize = 4;

/// What a log gave.
#[derive(Debug, Default)]
pub(crate) struct Log {
    /// In the order of the lines.
    pub(crate) probes: Vec<Probe>,
    /// Lines that gave none, by the reason.
    pub(crate) skipped: BTreeMap<&'static str, usize>,
}

/// What a line says.
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
/// Those of `log`.
pub(crate) fn read(mut log: impl BufRead, snapshot: &Snapshot, schemes: Schemes) -> io::Result<Log> {
    let mut reader =
        Reader { snapshot, schemes, hosts: hosts(snapshot), asked: HashMap::new(), found: Log::default() };
    let mut line = Vec::new();
    loop {
        line.clear();
        if log.by_ref().take(LONGEST_LINE).read_until(b'\n', &mut line)? == 0 {
            return Ok(reader.found);
        }
        let text = String::from_utf8_lossy(&line);
        if let Err(reason) = reader.take(text.trim()) {
            *reader.found.skipped.entry(reason).or_default() += 1;
        }
    }
}

/// A host that an upstream serves, and how it is asked.
type Served = (Arc<str>, Scheme);
type HostAndPath = (Arc<str>, String);

struct Reader<'s> {
    snapshot: &'s Snapshot,
    schemes: Schemes,
    /// By the names that ingress-nginx gives upstreams.
    hosts: HashMap<String, Vec<Served>>,
    /// By host and path, the targets.
    asked: HashMap<HostAndPath, Vec<(Ask, String)>>,
    found: Log,
}

impl Reader<'_> {
    fn take(&mut self, text: &str) -> Result<(), &'static str> {
        if text.is_empty() {
            return Err("empty line");
        }
        let line = Line::read(text).ok_or("not a line of an access log of ingress-nginx")?;
        let ask = match line.method.as_str() {
            "GET" => Ask::Get,
            "HEAD" => Ask::Head,
            "OPTIONS" => Ask::Options,
            "" => return Err("no request was received"),
            _ => return Err("another method than GET, HEAD and OPTIONS"),
        };
        if line.status == Some(101) {
            return Err("a WebSocket");
        }
        if !line.target.starts_with('/') {
            return Err("no path");
        }
        let hosts = self.hosts_of(&line, ask);
        if hosts.is_empty() {
            return Err("no host of the objects serves it");
        }
        let mut outcome = Err("the same as another line");
        for (host, scheme) in hosts {
            match self.ask(&host, scheme, ask, &line.target) {
                Ok(()) => outcome = Ok(()),
                Err(reason) if outcome.is_err() => outcome = Err(reason),
                Err(_) => {}
            }
        }
        outcome
    }

    fn ask(&mut self, host: &Arc<str>, scheme: Scheme, ask: Ask, target: &str) -> Result<(), &'static str> {
        let probe = Probe::request(scheme, host, ask, target, Purpose::AccessLog);
        if !is_askable(&probe) {
            return Err("no request can say it");
        }
        let path = target.split('?').next().unwrap_or(target);
        let asked = self.asked.entry((Arc::clone(host), path.to_owned())).or_default();
        if asked.iter().any(|(other, known)| *other == ask && known == target) {
            return Err("the same as another line");
        }
        if asked.iter().filter(|(other, _)| *other == ask).count() >= QUERIES {
            return Err("another query of a path that is asked for three times");
        }
        asked.push((ask, target.to_owned()));
        self.found.probes.push(probe);
        Ok(())
    }

    /// The hosts that a line may be about: the one it names, else those whose rule for the target leads to its upstream.
    fn hosts_of(&self, line: &Line, ask: Ask) -> Vec<Served> {
        let serves = |host: &Arc<str>, scheme| {
            let probe = Probe::request(scheme, host, ask, &line.target, Purpose::AccessLog);
            located(self.snapshot, &probe)
        };
        if let Some(name) = &line.host {
            let name: Arc<str> = name.split(':').next().unwrap_or(name).to_ascii_lowercase().into();
            let wanted = line.scheme.unwrap_or(Scheme::Https);
            let found = serves(&name, self.schemes.preferred(wanted));
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
                serves(host, *scheme).rule.is_some_and(|rule| upstream_of(rule) == *upstream)
            })
            .map(|(host, scheme)| (Arc::clone(host), self.schemes.preferred(line.scheme.unwrap_or(*scheme))));
        fitting.take(HOSTS).collect()
    }
}

/// Which hosts lead to which upstream.
fn hosts(snapshot: &Snapshot) -> HashMap<String, Vec<Served>> {
    let mut hosts: HashMap<String, Vec<Served>> = HashMap::new();
    for host in snapshot.config().hosts.values().filter(|host| host.key.host != HostPattern::Any) {
        let scheme = if host.certificate.is_some() { Scheme::Https } else { Scheme::Http };
        let served = (name_of(&host.key.host), scheme);
        for rule in
            host.routes.iter().flat_map(|route| &route.rules).filter(|rule| !rule.labels.service.is_empty())
        {
            let known = hosts.entry(upstream_of(rule)).or_default();
            if !known.contains(&served) {
                known.push(served.clone());
            }
        }
    }
    hosts
}

/// The name of a rule's upstream in ingress-nginx.
fn upstream_of(rule: &Rule) -> String {
    let labels = &rule.labels;
    format!("{}-{}-{}", labels.namespace, labels.service, labels.service_port)
}

impl Line {
    fn read(text: &str) -> Option<Self> {
        match serde_json::from_str(text) {
            Ok(Value::Object(members)) => Self::of_json(&members),
            _ => Self::of_text(text),
        }
    }

    /// `$remote_addr - $remote_user [$time_local] "$request" $status $body_bytes_sent "$http_referer" "$http_user_agent"
    /// $request_length $request_time [$proxy_upstream_name] ...`. nginx writes a quote in a value as `\x22`.
    fn of_text(text: &str) -> Option<Self> {
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
        line.take_request(request);
        Some(line)
    }

    fn of_json(members: &Map<String, Value>) -> Option<Self> {
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
            Some(request) if request.contains(' ') => line.take_request(&request),
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

    /// `GET /path HTTP/1.1`; what is no request leaves the method empty.
    fn take_request(&mut self, request: &str) {
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
            let wanted = Line {
                method: "GET".into(),
                target: "/a?b=1".into(),
                status: Some(200),
                scheme: Some(Scheme::Https),
                host: Some("a.test".into()),
                upstream: None,
            };
            assert_eq!(line, wanted, "{text}");
        }
    }

    #[test]
    fn what_is_no_line_or_no_request_is_skipped_with_its_reason() {
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
        let wanted = [
            ("a WebSocket", 1),
            ("another method than GET, HEAD and OPTIONS", 1),
            ("empty line", 1),
            ("no host of the objects serves it", 1),
            ("no path", 1),
            ("no request was received", 1),
            ("not a line of an access log of ingress-nginx", 1 + 4),
        ];
        assert_eq!(found.skipped, wanted.into());
    }
}
