//! The virtual host that all Ingresses of a host make together: its rules with their filters, and its certificate.

use std::sync::Arc;

use fairway_model::{
    Action, Answer, AnswerReason, Certificate, CertificateKey, Filter, HostKey, HostPattern, Match, Origin,
    PathForm, PathMatch, Policy, Route, Rule, RuleLabels, RuleOrder, VirtualHost, WeightedBackend,
    WildcardSpan,
};

use k8s_openapi::api::networking::v1::{IngressBackend, IngressTLS};

use crate::backend::{Wanted, port_text};
use crate::certificate;
use crate::diagnostic::{Diagnostic, Severity};
use crate::limits;
use crate::ownership::{Parties, decides};
use crate::path::{self, Entry, Layout, Location, Matching};
use crate::plan::{Closed, Context, Plan};
use crate::redirect::{self, ToHttps};
use crate::resources::{Kind, ObjectKey};
use crate::rewrite;
use crate::sharing::Shared;

/// The route table of all Ingresses.
pub(crate) const TABLE: &str = "ingress";

/// What certificate a host has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum HostTls {
    /// No Ingress of it has a `tls` section.
    #[default]
    None,
    /// The default one: the section names none that is good for it.
    Default,
    /// The one in this Secret.
    Secret(ObjectKey),
}

/// What stands around a host.
pub(crate) struct Surroundings<'a> {
    pub(crate) context: Context<'a>,
    /// The usable certificates by Secret.
    pub(crate) certificate: &'a dyn Fn(&ObjectKey) -> Option<Arc<Certificate>>,
    /// What the wildcard host has that covers this one.
    pub(crate) wildcard: HostTls,
}

/// What building a host gives.
#[derive(Debug)]
pub(crate) struct Built {
    pub(crate) host: VirtualHost,
    /// Its own certificate, before that of a wildcard host takes its place.
    pub(crate) tls: HostTls,
    pub(crate) backends: Vec<Wanted>,
    pub(crate) diagnostics: Vec<Diagnostic>,
}

/// Builds a host.
pub(crate) fn build(host: &HostPattern, parties: &Parties, around: &Surroundings<'_>) -> Built {
    let mut layout = path::layout(host, parties);
    let section = tls_section(host, parties);
    let tls = section
        .map_or(HostTls::None, |section| own_certificate(host, section, around, &mut layout.diagnostics));
    let served = if tls == HostTls::None { around.wildcard.clone() } else { tls.clone() };
    let mut builder = Builder {
        context: around.context,
        // A name that no host has is never redirected: no certificate is known for it.
        certain: *host != HostPattern::Any && served != HostTls::None,
        backends: Vec::new(),
        diagnostics: Vec::new(),
    };
    let entries = layout.entries();
    let root = layout_app_root(&layout, &entries);
    let routes = builder.routes(&layout, &entries, root);
    let shared = Shared {
        host,
        layout: &layout,
        entries: &entries,
        root,
        tls: section.filter(|_| builder.certain && around.wildcard == HostTls::None).map(|(plan, _)| plan),
        annotations_prefix: &around.context.options.annotations_prefix,
    };
    let shared = shared.describe();
    let mut diagnostics = layout.diagnostics;
    diagnostics.extend(shared);
    diagnostics.append(&mut builder.diagnostics);
    let order = match layout.matching {
        Matching::Text => RuleOrder::Precedence,
        Matching::Patterns => RuleOrder::Listed,
    };
    let host = VirtualHost {
        key: HostKey { table: TABLE.into(), host: host.clone() },
        order,
        path_form: PathForm::Decoded,
        routes,
        certificate: match served {
            HostTls::Secret(secret) => Some(CertificateKey(secret.to_string().into())),
            HostTls::None | HostTls::Default => None,
        },
        falls_through: false,
    };
    Built { host, tls, backends: builder.backends, diagnostics }
}

/// The `tls` section that gives a host its certificate: that of the oldest Ingress which has one and decides.
fn tls_section<'a>(host: &HostPattern, parties: &'a Parties) -> Option<(&'a Arc<Plan>, &'a Vec<IngressTLS>)> {
    parties.deciding().find_map(|plan| {
        let tls = plan.spec()?.tls.as_ref().filter(|tls| !tls.is_empty())?;
        (plan.rules.iter().any(|(of, _)| of == host)).then_some((plan, tls))
    })
}

/// The certificate of a `tls` section: of the entry that names the host, else of one whose certificate is for it
/// (`extractTLSSecretName`); the default one where it is not for the host.
fn own_certificate(
    host: &HostPattern,
    (plan, tls): (&Arc<Plan>, &Vec<IngressTLS>),
    around: &Surroundings<'_>,
    diagnostics: &mut Vec<Diagnostic>,
) -> HostTls {
    let key = |name: &str| ObjectKey { namespace: plan.key.namespace.clone(), name: name.into() };
    let names_host = |name: &String| HostPattern::parse(name, WildcardSpan::OneLabel).as_ref() == Ok(host);
    let named = tls.iter().position(|tls| tls.hosts.iter().flatten().any(names_host));
    let good = |secret: &ObjectKey| (around.certificate)(secret).filter(|it| certificate::is_for(it, host));
    let Some(at) = named else {
        let secrets = tls.iter().filter_map(|tls| tls.secret_name.as_deref()).map(key);
        return secrets.into_iter().find(|key| good(key).is_some()).map_or(HostTls::Default, HostTls::Secret);
    };
    let Some(secret) = tls[at].secret_name.as_deref().filter(|name| !name.is_empty()).map(key) else {
        return HostTls::Default;
    };
    if good(&secret).is_some() {
        return HostTls::Secret(secret);
    }
    if let Some(other) = (around.certificate)(&secret) {
        let origin = plan.ingress.origin(Kind::Ingress, &plan.key, &format!("spec.tls[{at}].secretName"));
        let problem =
            format!("the certificate in Secret {secret} is for {}, not for {host}", other.names.join(", "));
        let found = Diagnostic::new(Severity::Error, "certificate-for-other-names", origin);
        diagnostics.push(found.because(problem, "the default certificate is shown to its clients"));
    }
    HostTls::Default
}

/// Makes rules of locations.
struct Builder<'a> {
    context: Context<'a>,
    /// Whether a certificate is known for the host.
    certain: bool,
    backends: Vec<Wanted>,
    diagnostics: Vec<Diagnostic>,
}

impl Builder<'_> {
    /// The rules of a host, in runs of the same Ingress.
    fn routes(&mut self, layout: &Layout, entries: &[Entry], root: Option<&Location>) -> Vec<Arc<Route>> {
        let mut routes: Vec<Route> = Vec::new();
        if let Some(location) = root {
            append(&mut routes, location, self.app_root(location));
        }
        // The answers of locations are made once: nginx tries some of them at two places.
        let mut actions: Vec<Option<Action>> = vec![None; layout.locations.len()];
        for entry in entries {
            let at_root = entry.condition.path == PathMatch::Exact("/".into());
            if root.is_some() && at_root && layout.matching == Matching::Text {
                continue;
            }
            let location = &layout.locations[entry.location];
            let action = actions[entry.location].get_or_insert_with(|| self.action(location)).clone();
            append(&mut routes, location, self.rule(location, entry, action));
        }
        routes.into_iter().map(Arc::new).collect()
    }

    fn rule(&self, location: &Location, entry: &Entry, action: Action) -> Rule {
        let mut rule = Rule {
            origin: self.origin(location),
            matches: vec![entry.condition.clone()],
            filters: Vec::new(),
            action,
            policy: self.policy(location),
            labels: labels(location),
        };
        if let Some(path) = &entry.adds_slash {
            rule.filters.push(Filter::Redirect(redirect::to_trailing_slash(path)));
            rule.action = not_found();
        } else if entry.unusable {
            rule.action = unavailable(AnswerReason::ProtectionUnavailable);
        } else if closed(location).is_none() {
            self.filters(location, &mut rule.filters);
        }
        rule.filters.extend(self.context.defaults.hsts.clone().map(Filter::StrictTransportSecurity));
        rule
    }

    /// In nginx's order: `if` and `return` of the rewrite phase, the redirect to https at its end, the access phase,
    /// then what is forwarded.
    fn filters(&self, location: &Location, filters: &mut Vec<Filter>) {
        let Some(owner) = &location.owner else { return };
        let treatment = &owner.treatment;
        filters.extend(treatment.cors.clone().map(Filter::Cors));
        filters.extend(treatment.redirect.clone().map(Filter::Redirect));
        if self.goes_to_https(location, treatment.to_https) {
            filters.push(Filter::HttpsRedirect(redirect::https_filter(self.context.defaults)));
        }
        filters.extend(treatment.access.clone().map(Filter::Access));
        if let Some(target) = location.rewrite() {
            filters.push(Filter::RewritePath(rewrite::filter(&location.path, target)));
        }
        filters.extend(treatment.headers.clone().map(Filter::ResponseHeaders));
    }

    fn goes_to_https(&self, location: &Location, wish: ToHttps) -> bool {
        let exempt = &self.context.defaults.never_to_https;
        let wanted = wish == ToHttps::Always || (wish == ToHttps::WithCertificate && self.certain);
        wanted && !exempt.iter().any(|prefix| location.path.starts_with(&**prefix))
    }

    fn action(&mut self, location: &Location) -> Action {
        let Some(owner) = &location.owner else { return not_found() };
        let Some(backend) = location.backend() else { return not_found() };
        if let Some(Closed(reason)) = closed(location) {
            // What else is wrong with it will matter once it is open.
            _ = self.wanted(location, owner, backend);
            return unavailable(reason);
        }
        if owner.treatment.redirect.is_some() {
            // ingress-nginx does not look at the Service of a path that is only redirected.
            return not_found();
        }
        let Some(wanted) = self.wanted(location, owner, backend) else {
            return unavailable(AnswerReason::MissingReference);
        };
        let action = Action::Forward(vec![WeightedBackend { backend: wanted.key.clone(), weight: 1 }]);
        self.backends.push(wanted);
        action
    }

    /// The backend of a location, or nothing after saying why it has none.
    fn wanted(&mut self, location: &Location, owner: &Plan, backend: &IngressBackend) -> Option<Wanted> {
        let mut origin = self.origin(location);
        if !origin.field.ends_with("Backend") {
            origin = origin.at(format!("{}.backend", origin.field));
        }
        let Some(service) = &backend.service else {
            self.unresolved(origin, "its backend is no Service, and other kinds are not supported");
            return None;
        };
        let Some(wanted) = Wanted::new(&owner.key.namespace, service, &owner.treatment.upstream) else {
            self.unresolved(origin, "its backend names no port");
            return None;
        };
        if let Err(error) = wanted.target(&self.context) {
            self.diagnostics.push(error.describe(&wanted, &origin));
            return None;
        }
        Some(wanted)
    }

    fn unresolved(&mut self, origin: Origin, problem: &str) {
        let found = Diagnostic::new(Severity::Error, "unsupported-backend", origin);
        self.diagnostics.push(found.because(problem, "this path answers 503"));
    }

    /// `if ($uri = /) { return 302 $scheme://$http_host<app-root>; }` stands before all locations.
    fn app_root(&self, location: &Location) -> Rule {
        let path = location.owner.as_ref().and_then(|owner| owner.treatment.app_root.clone());
        let entry = Entry {
            location: 0,
            condition: Match { path: PathMatch::Exact("/".into()), ..Match::default() },
            adds_slash: None,
            unusable: false,
        };
        let mut rule = self.rule(location, &entry, not_found());
        rule.filters.retain(|filter| matches!(filter, Filter::StrictTransportSecurity(_)));
        let to = |path| Filter::Redirect(redirect::to_app_root(path));
        rule.filters.splice(0..0, path.as_ref().map(to));
        rule
    }

    fn policy(&self, location: &Location) -> Policy {
        let defaults = self.context.defaults;
        let own = location.owner.as_ref().map(|owner| owner.treatment.policy.clone());
        own.unwrap_or_else(|| limits::policy(defaults, defaults.timeouts, defaults.max_body))
    }

    fn origin(&self, location: &Location) -> Origin {
        match &location.owner {
            Some(owner) => owner.ingress.origin(Kind::Ingress, &owner.key, &location.field()),
            None => Origin::object("Default", "", "no-route"),
        }
    }
}

/// The location whose Ingress sends `/` to the root of its application: the first one that nginx lists, of those that
/// decide about the host.
fn layout_app_root<'a>(layout: &'a Layout, entries: &[Entry]) -> Option<&'a Location> {
    let order = entries.iter().map(|entry| &layout.locations[entry.location]);
    let wants = |location: &&Location| {
        let owner = location.owner.as_ref();
        let may = |owner: &Arc<Plan>| decides(layout.host_owner.as_ref(), owner);
        closed(location).is_none() && owner.is_some_and(|it| it.treatment.app_root.is_some() && may(it))
    };
    order.into_iter().find(wants)
}

fn closed(location: &Location) -> Option<Closed> {
    location.owner.as_ref()?.treatment.closed
}

/// Adds a rule to the last route, or to a new one when another Ingress wrote it.
fn append(routes: &mut Vec<Route>, location: &Location, rule: Rule) {
    let origin = rule.origin.at("");
    if routes.last().is_none_or(|last| last.origin != whole(&origin, location)) {
        let created = location.owner.as_ref().and_then(|owner| owner.created);
        routes.push(Route { origin: whole(&origin, location), created, rules: Vec::new() });
    }
    let last = routes.last_mut().expect("one was just added where there was none");
    last.rules.push(rule);
}

/// The object as a whole.
fn whole(origin: &Origin, location: &Location) -> Origin {
    match &location.owner {
        Some(owner) => owner.ingress.origin(Kind::Ingress, &owner.key, ""),
        None => origin.clone(),
    }
}

fn labels(location: &Location) -> RuleLabels {
    let Some(owner) = &location.owner else { return RuleLabels::default() };
    let service = location.backend().and_then(|backend| backend.service.as_ref());
    RuleLabels {
        namespace: owner.key.namespace.clone(),
        ingress: owner.key.name.clone(),
        service: service.map(|service| service.name.as_str().into()).unwrap_or_default(),
        service_port: service.and_then(port_text).unwrap_or_default(),
        path: location.path.clone(),
    }
}

fn not_found() -> Action {
    Action::Answer(Answer { status: 404, reason: AnswerReason::NoRoute })
}

fn unavailable(reason: AnswerReason) -> Action {
    Action::Answer(Answer { status: 503, reason })
}
