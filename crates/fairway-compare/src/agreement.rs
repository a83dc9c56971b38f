//! Compares two configurations without sending requests: looks each probe up in both and describes what each does with it.
//! Responses of endpoints are not considered.

use fairway_model::{
    Action, CertificateKey, FixedResponseReason, Guard, HttpsRedirect, PathForm, PathRewrite, Redirect,
    RedirectTarget, ReferenceStatus, Rule, SessionKey, WeightedBackend,
};
use fairway_routing::{CompiledRule, Matched, Request, Snapshot};

use crate::located::{self, ProbeFields};
use crate::plan::Plan;
use crate::probe::{Probe, ProbeKind, Scheme};

/// The result of looking probes up in two configurations.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Agreement {
    /// Number of probes.
    pub probes: usize,
    /// The probes that the two configurations handle differently.
    pub differing: Vec<Disagreement>,
}

/// A probe that two configurations handle differently.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Disagreement {
    /// The probe.
    pub probe: Probe,
    /// What the first configuration does with it.
    pub from: String,
    /// What the second configuration does with it.
    pub target_outcome: String,
}

/// Looks each request up in both configurations. Skips requests over TLS if `from` has no certificate for the host, because `to`
/// may have no listener for it, and requests with a session cookie, because the configuration does not determine its endpoint.
#[must_use]
pub fn agreement(plan: &Plan, from: &Snapshot, to: &Snapshot) -> Agreement {
    let mut agreement = Agreement::default();
    let sessions = session_cookies(from);
    let counts = |probe: &&Probe| probe.kind != ProbeKind::Handshake && !has_session_cookie(probe, &sessions);
    for probe in plan.probes.iter().filter(counts) {
        if probe.scheme == Scheme::Https && certificate(from, probe).is_none() {
            continue;
        }
        agreement.probes += 1;
        let [before, after] = [from, to].map(|snapshot| describe(snapshot, probe));
        if before != after {
            agreement.differing.push(Disagreement {
                probe: probe.clone(),
                from: before,
                target_outcome: after,
            });
        }
    }
    agreement
}

/// The names of the session cookies.
fn session_cookies(snapshot: &Snapshot) -> Vec<&str> {
    let all = snapshot.config().backends.values().filter_map(|backend| backend.session.as_ref());
    let names = all.filter_map(|session| match session {
        SessionKey::Cookie(cookie) => Some(&*cookie.name),
        SessionKey::Hash(_) => None,
    });
    names.collect()
}

fn has_session_cookie(probe: &Probe, names: &[&str]) -> bool {
    let cookies = probe.fields.iter().filter(|(name, _)| name == "cookie").map(|(_, value)| value);
    cookies.flat_map(|value| value.split("; ")).any(|pair| {
        let name = pair.split('=').next().unwrap_or_default();
        names.contains(&name)
    })
}

fn certificate<'s>(snapshot: &'s Snapshot, probe: &Probe) -> Option<&'s CertificateKey> {
    let host = located::located(snapshot, &Probe::handshake(&probe.host)).host;
    host.and_then(|host| host.certificate.as_ref()).or(snapshot.config().default_certificate.as_ref())
}

/// Describes what a configuration does with a probe.
fn describe(snapshot: &Snapshot, probe: &Probe) -> String {
    let found = located::looked_up(snapshot, probe, |request, matched| match matched {
        Matched::Rule { rule, prefix, .. } => describe_rule(snapshot, probe, request, rule, prefix),
        Matched::NoRule(_) | Matched::NoHost => "404".to_owned(),
    });
    found.unwrap_or_else(|| "no listener".to_owned())
}

fn describe_rule(
    snapshot: &Snapshot,
    probe: &Probe,
    request: &Request<'_, ProbeFields<'_>>,
    rule: &CompiledRule,
    prefix: usize,
) -> String {
    let model = rule.rule();
    if let Some(redirect) = redirected(probe, model) {
        return redirect;
    }
    if model.phases.guards.iter().any(protects) {
        return "closed".to_owned();
    }
    match &model.action {
        Action::FixedResponse(answer) => match answer.status {
            _ if answer.reason == FixedResponseReason::Refused => "closed".to_owned(),
            500 | 503 => "closed".to_owned(),
            status => status.to_string(),
        },
        Action::Forward(shares) if is_closed(shares) => "closed".to_owned(),
        Action::Forward(shares) => {
            format!("{} with {}", backends(snapshot, shares), target(request, probe, rule, prefix))
        }
    }
}

/// Whether a rule has no valid backend, so that it returns 500.
fn is_closed(shares: &[WeightedBackend]) -> bool {
    shares.iter().all(|share| share.weight == 0 || share.reference == ReferenceStatus::Invalid)
}

/// Whether a guard allows only some clients. A route must not serve such a path to others.
fn protects(guard: &Guard) -> bool {
    matches!(
        guard,
        Guard::Access(_)
            | Guard::ClientCertificate(_)
            | Guard::OverTls
            | Guard::Deny(_)
            | Guard::Respond(_)
            | Guard::ExternalAuth(_)
            | Guard::GrpcAuth(_)
            | Guard::BasicAuth(_)
            | Guard::Jwt(_)
            | Guard::Oidc(_)
            | Guard::ApiKey(_)
            | Guard::Authorize(_)
            | Guard::Any(_)
    )
}

/// The Services with their shares of the requests.
fn backends(snapshot: &Snapshot, shares: &[WeightedBackend]) -> String {
    let total_weight: u32 = shares.iter().map(|share| share.weight).sum();
    let mut named: Vec<String> = Vec::new();
    for share in shares.iter().filter(|share| share.weight > 0) {
        let name = match snapshot.config().backends.get(&share.backend) {
            Some(backend) => format!("{}/{}", backend.service.namespace, backend.service.name),
            None => share.backend.to_string(),
        };
        named
            .push(format!("{name} {:.1}%", f64::from(share.weight) * 100.0 / f64::from(total_weight.max(1))));
    }
    named.sort_unstable();
    named.join(", ")
}

/// Path and query as endpoints receive them, with the path normalised: whether a path is forwarded as received does not depend on
/// its rule.
fn target(
    request: &Request<'_, ProbeFields<'_>>,
    probe: &Probe,
    rule: &CompiledRule,
    prefix: usize,
) -> String {
    let as_it_is = || probe.target.clone();
    let Some(rewrite) = rule.rewrite() else { return as_it_is() };
    let path = match rewrite.path_form() {
        PathForm::Normalised => request.normalised,
        PathForm::Decoded => request.decoded,
    };
    let mut target = Vec::new();
    match rewrite.apply(path, request.query, prefix, &mut target) {
        true => String::from_utf8_lossy(&target).into_owned(),
        false => as_it_is(),
    }
}

fn redirected(probe: &Probe, rule: &Rule) -> Option<String> {
    rule.phases.guards.iter().find_map(|guard| match guard {
        Guard::HttpsRedirect(it) if probe.scheme == Scheme::Http => Some(to_https(probe, it)),
        Guard::Redirect(it) => Some(redirect_text(probe, it)),
        _ => None,
    })
}

fn to_https(probe: &Probe, redirect: &HttpsRedirect) -> String {
    Location { scheme: Scheme::Https.as_str(), ..Location::from_probe(probe) }.redirect(redirect.status)
}

fn redirect_text(probe: &Probe, path_redirect: &Redirect) -> String {
    let source = Location::from_probe(probe);
    match &path_redirect.target {
        RedirectTarget::Url(url) => {
            format!("{} to {}", path_redirect.status, url.trim_end_matches('/'))
        }
        RedirectTarget::Path(path) => Location { path, ..source }.redirect(path_redirect.status),
        RedirectTarget::Host(host) => Location { host, ..source }.redirect(path_redirect.status),
        RedirectTarget::Parts { scheme, host, port, path, .. } => {
            let scheme = scheme.as_deref().unwrap_or(source.scheme);
            let is_default_port =
                (scheme == "https" && *port == Some(443)) || (scheme == "http" && *port == Some(80));
            let is_url = host.is_some() && path.is_some();
            let path = match path {
                Some(PathRewrite::Full(path) | PathRewrite::Prefix(path)) => &**path,
                Some(PathRewrite::Regex { .. }) | None => source.path,
            };
            let to = Location {
                scheme,
                host: host.as_deref().unwrap_or(source.host),
                port: port.filter(|_| !is_default_port),
                path,
                // A redirect URL of an Ingress drops the query; the report mentions that routes keep it.
                query: if is_url { "" } else { source.query },
            };
            to.redirect(path_redirect.status)
        }
    }
}

/// The target of a redirect.
struct Location<'a> {
    scheme: &'a str,
    host: &'a str,
    port: Option<u16>,
    path: &'a str,
    /// Including the question mark.
    query: &'a str,
}

impl<'a> Location<'a> {
    /// The URL of a probe itself.
    fn from_probe(probe: &'a Probe) -> Self {
        Self {
            scheme: probe.scheme.as_str(),
            host: &probe.host,
            port: None,
            path: path_of(probe),
            query: query_of(probe),
        }
    }

    /// The redirect without a trailing slash, because redirects of ingress-nginx and of routes always differ in it.
    fn redirect(&self, status: u16) -> String {
        let Self { scheme, host, port, path, query } = self;
        let port = port.map(|port| format!(":{port}")).unwrap_or_default();
        let path = path.trim_end_matches('/');
        format!("{status} to {scheme}://{host}{port}{path}{query}")
    }
}

fn path_of(probe: &Probe) -> &str {
    probe.target.split('?').next().unwrap_or_default()
}

fn query_of(probe: &Probe) -> &str {
    probe.target.find('?').map_or("", |at| &probe.target[at..])
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use fairway_model::{
        Backend, BackendProtocol, Balancing, Config, Forwarding, HostKey, HostPattern, Listener,
        ListenerProtocol, Match, Origin, PathMatch, Phases, Route, RuleLabels, RuleOrder, ServiceName,
        VirtualHost,
    };
    use fairway_routing::compile;

    use super::*;
    use crate::address::Schemes;

    /// `a.test` with a prefix, what its rule does, and a Service.
    fn snapshot(path: &str, phases: Phases, service: &str) -> Arc<Snapshot> {
        let key = HostKey { table: "t".into(), host: HostPattern::Exact("a.test".into()) };
        let origin = Origin::object("Ingress", "shop", "web");
        let backend = Backend {
            key: format!("shop/{service}:80").as_str().into(),
            origin: origin.clone(),
            service: ServiceName { namespace: "shop".into(), name: service.into(), port: "80".into() },
            endpoints: Vec::new(),
            protocol: BackendProtocol::Http1,
            tls: None,
            balancing: Balancing::RoundRobin,
            session: None,
            traffic: None,
        };
        let rule = Rule {
            origin: origin.at("spec.rules[0]"),
            matches: vec![Match { path: PathMatch::Prefix(path.into()), ..Match::default() }],
            phases: phases.shared(),
            action: Action::Forward(vec![WeightedBackend::new(backend.key.clone(), 1)]),
            policy: Arc::default(),
            labels: RuleLabels::default(),
        };
        let host = VirtualHost {
            key: key.clone(),
            order: RuleOrder::Precedence,
            path_form: PathForm::Normalised,
            routes: vec![Arc::new(Route { origin, created: None, hostname_rank: 0, rules: vec![rule] })],
            certificate: None,
            clients: None,
            suites: None,
            falls_through: false,
        };
        let mut config = Config::default();
        let listener = Listener::new("http", ListenerProtocol::Http, 80, "t");
        config.listeners.insert("http".into(), Arc::new(listener));
        config.hosts.insert(key, Arc::new(host));
        config.backends.insert(backend.key.clone(), Arc::new(backend));
        compile(&config, None).snapshot
    }

    fn differing(from: &Snapshot, to: &Snapshot) -> Vec<(String, String)> {
        let found = agreement(&Plan::from_snapshot(from, Schemes::Http, 100), from, to);
        assert!(found.probes > 3, "{found:?}");
        found.differing.into_iter().map(|it| (it.from, it.target_outcome)).collect()
    }

    #[test]
    fn equal_configurations_agree_and_another_service_or_path_differs() {
        let snapshot_a = snapshot("/a", Phases::default(), "web");
        assert!(differing(&snapshot_a, &snapshot("/a", Phases::default(), "web")).is_empty());
        let other = differing(&snapshot_a, &snapshot("/a", Phases::default(), "other"));
        assert!(other[0].0.starts_with("shop/web 100.0% with /a"), "{other:?}");
        assert!(other[0].1.starts_with("shop/other 100.0% with /a"), "{other:?}");
        let path = Some(PathRewrite::Prefix("/b".into()));
        let rewritten = Phases::from(Forwarding { path, ..Forwarding::default() });
        let rewritten = differing(&snapshot_a, &snapshot("/a", rewritten, "web"));
        assert!(rewritten[0].1.ends_with("with /b"), "{rewritten:?}");
        let gone = differing(&snapshot_a, &snapshot("/other", Phases::default(), "web"));
        assert!(gone.iter().any(|(_, to)| to == "404"), "{gone:?}");
    }

    #[test]
    fn a_protected_path_counts_as_closed_and_an_open_one_does_not() {
        let guarded = snapshot("/a", Guard::OverTls.into(), "web");
        let open = differing(&guarded, &snapshot("/a", Phases::default(), "web"));
        assert!(!open.is_empty() && open.iter().all(|(from, _)| from == "closed"), "{open:?}");
        let redirected = |keep_trailing_slash| {
            let to_https = HttpsRedirect { status: 308, keep_trailing_slash, explicit_port: false };
            snapshot("/a", Guard::HttpsRedirect(to_https).into(), "web")
        };
        assert!(differing(&redirected(true), &redirected(false)).is_empty());
    }
}
