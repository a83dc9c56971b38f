//! What one Ingress asks for by itself: its hosts, what its annotations make of its requests, and what it refers to.
//! Never looks at other Ingresses; what several make of a host together is in [`crate::host`].

use std::collections::BTreeSet;
use std::sync::Arc;

use fairway_model::{
    AccessList, AnswerReason, Cors, HeaderEdit, HostPattern, Policy, Redirect, WildcardSpan,
};
use k8s_openapi::api::networking::v1::{Ingress, IngressBackend, IngressSpec};

use crate::annotation::registry::{self, Class, Support};
use crate::annotation::{Annotated, Reader, switch};
use crate::class::{Claim, Classes};
use crate::diagnostic::{Diagnostic, Severity};
use crate::options::{Options, UnsupportedProtection};
use crate::ownership::Guests;
use crate::pattern::Patterns;
use crate::redirect::ToHttps;
use crate::resources::{ObjectKey, Resources, Sourced};
use crate::settings::Defaults;
use crate::upstream::Wish;
use crate::{access, cors, headers, limits, redirect, rewrite, upstream, validation};

/// What all readers of objects may look at.
#[derive(Clone, Copy)]
pub(crate) struct Context<'a> {
    pub(crate) resources: &'a Resources,
    pub(crate) options: &'a Options,
    pub(crate) defaults: &'a Defaults,
}

/// An Ingress that is served.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) key: ObjectKey,
    pub(crate) ingress: Sourced<Ingress>,
    pub(crate) created: Option<i64>,
    /// The rules with a good host, by host.
    pub(crate) rules: Vec<(HostPattern, usize)>,
    /// Whom it lets onto its hosts where hosts have owners.
    pub(crate) guests: Guests,
    pub(crate) treatment: Treatment,
    pub(crate) patterns: Patterns,
}

/// What the annotations of an Ingress make of its requests.
#[derive(Clone, Debug)]
pub(crate) struct Treatment {
    /// Why all paths answer 503.
    pub(crate) closed: Option<Closed>,
    pub(crate) access: Option<AccessList>,
    pub(crate) cors: Option<Cors>,
    pub(crate) headers: Option<HeaderEdit>,
    pub(crate) redirect: Option<Redirect>,
    pub(crate) to_https: ToHttps,
    pub(crate) app_root: Option<Arc<str>>,
    pub(crate) rewrite: Option<Arc<str>>,
    pub(crate) paths: Paths,
    pub(crate) policy: Policy,
    pub(crate) upstream: Wish,
}

/// How the paths of an Ingress are meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Paths {
    /// As their types say.
    Plain,
    /// As regular expressions, and with them all paths of the host (`use-regex`).
    Patterns,
}

/// What an Ingress refers to, whether it exists or not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Uses {
    pub(crate) services: BTreeSet<ObjectKey>,
    pub(crate) secrets: BTreeSet<ObjectKey>,
    /// Those Secrets whose certificate is shown.
    pub(crate) certificates: BTreeSet<ObjectKey>,
    pub(crate) config_maps: BTreeSet<ObjectKey>,
}

/// What reading an Ingress gives.
#[derive(Debug, Default)]
pub(crate) struct Reading {
    pub(crate) plan: Option<Plan>,
    pub(crate) uses: Uses,
    pub(crate) diagnostics: Vec<Diagnostic>,
}

/// Why the paths of an Ingress answer 503; the diagnostic is already written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Closed(pub(crate) AnswerReason);

const CLOSED: &str = "its paths answer 503";

impl Closed {
    /// Because a value that protects cannot be read.
    pub(crate) fn invalid(reader: &mut Reader<'_>, name: &str, problem: String) -> Self {
        reader.note(Severity::Error, "invalid-protection", name, (problem, CLOSED.to_owned()));
        Self(AnswerReason::ProtectionUnavailable)
    }

    /// Because an object does not exist.
    pub(crate) fn missing(reader: &mut Reader<'_>, name: &str, problem: String) -> Self {
        reader.note(Severity::Error, "missing-reference", name, (problem, CLOSED.to_owned()));
        Self(AnswerReason::MissingReference)
    }

    /// Because a value is not supported and to serve it otherwise would be wrong.
    pub(crate) fn unsupported(reader: &mut Reader<'_>, name: &str, problem: String) -> Self {
        reader.note(Severity::Error, "unsupported-value", name, (problem, CLOSED.to_owned()));
        Self(AnswerReason::ProtectionUnavailable)
    }
}

impl Plan {
    /// The object's `spec`, which a plan always has.
    pub(crate) fn spec(&self) -> Option<&IngressSpec> {
        self.ingress.object.spec.as_ref()
    }

    /// `spec.defaultBackend`.
    pub(crate) fn default_backend(&self) -> Option<&IngressBackend> {
        self.spec()?.default_backend.as_ref()
    }

    /// Whether it has a default backend and no rules: then it answers what no host answers.
    pub(crate) fn is_catch_all(&self) -> bool {
        let ruleless = self.spec().and_then(|spec| spec.rules.as_ref()).is_none_or(Vec::is_empty);
        ruleless && self.default_backend().is_some()
    }

    /// The hosts it has a part in, each once.
    pub(crate) fn hosts(&self) -> BTreeSet<HostPattern> {
        let mut hosts: BTreeSet<_> = self.rules.iter().map(|(host, _)| host.clone()).collect();
        if self.is_catch_all() {
            hosts.insert(HostPattern::Any);
        }
        hosts
    }

    /// The order of Ingresses: the oldest first, then by name. One that does not say its age is the youngest.
    pub(crate) fn age(&self) -> (i64, &ObjectKey) {
        (self.created.unwrap_or(i64::MAX), &self.key)
    }
}

/// Reads an Ingress.
pub(crate) fn read(
    key: &ObjectKey,
    ingress: &Sourced<Ingress>,
    classes: &Classes,
    context: &Context<'_>,
) -> Reading {
    let mut reader = Reader::new(key, ingress, &context.options.annotations_prefix);
    if !is_claimed(classes.claim(&ingress.object), &mut reader) {
        return Reading { diagnostics: reader.diagnostics, ..Reading::default() };
    }
    let mut uses = uses(&reader.annotated());
    let rules = rules(&mut reader);
    missing_secrets(&mut reader, context);
    validation::read(&mut reader);
    let guests = Guests::read(&mut reader);
    let treatment = treatment(&mut reader, context);
    uses.certificates.extend(treatment.upstream.client_certificate().cloned());
    let canary = reader.switch("canary", false);
    let created = ingress.object.metadata.creation_timestamp.as_ref().map(|time| time.0.as_second());
    let patterns = Patterns::of(ingress.object.spec.as_ref(), &treatment);
    let plan =
        Plan { key: key.clone(), ingress: ingress.clone(), created, rules, guests, treatment, patterns };
    Reading { plan: (!canary).then_some(plan), uses, diagnostics: reader.diagnostics }
}

fn is_claimed(claim: Claim, reader: &mut Reader<'_>) -> bool {
    let (severity, claimed, problem, consequence) = match claim {
        Claim::Ours => return true,
        Claim::Others => return false,
        Claim::OursByName(name) => (
            Severity::Note,
            true,
            format!("IngressClass {name} does not exist"),
            "it is served because the name is one of ours",
        ),
        Claim::NoSuchClass(name) => {
            (Severity::Warning, false, format!("IngressClass {name} does not exist"), "it is not served")
        }
        Claim::Classless => {
            let problem = "it names no class and none of ours is the default".to_owned();
            (Severity::Note, false, problem, "it is not served")
        }
    };
    let origin = reader.field("spec.ingressClassName");
    let found = Diagnostic::new(severity, "ingress-class", origin).because(problem, consequence);
    reader.diagnostics.push(found);
    claimed
}

/// What an Ingress refers to, before anything is judged.
pub(crate) fn uses(ingress: &Annotated<'_>) -> Uses {
    let mut uses = Uses::default();
    let here = |name: &str| ObjectKey { namespace: ingress.key.namespace.clone(), name: name.into() };
    let Some(spec) = &ingress.ingress.spec else { return uses };
    let paths =
        spec.rules.iter().flatten().filter_map(|rule| rule.http.as_ref()).flat_map(|http| &http.paths);
    for backend in paths.map(|path| &path.backend).chain(&spec.default_backend) {
        uses.services.extend(backend.service.iter().map(|service| here(&service.name)));
    }
    let tls = spec.tls.iter().flatten().filter_map(|tls| tls.secret_name.as_deref());
    uses.certificates.extend(tls.filter(|name| !name.is_empty()).map(here));
    uses.secrets.extend(uses.certificates.iter().cloned());
    uses.secrets.extend(upstream::secret(ingress));
    uses.config_maps.extend(headers::config_map(ingress));
    uses
}

fn rules(reader: &mut Reader<'_>) -> Vec<(HostPattern, usize)> {
    let spec = reader.ingress.object.spec.as_ref();
    let mut rules = Vec::new();
    for (at, rule) in spec.and_then(|spec| spec.rules.as_ref()).into_iter().flatten().enumerate() {
        let host = rule.host.as_deref().unwrap_or_default();
        match HostPattern::parse(host, WildcardSpan::OneLabel) {
            Ok(pattern) => rules.push((pattern, at)),
            Err(error) => {
                let origin = reader.field(&format!("spec.rules[{at}].host"));
                let found = Diagnostic::new(Severity::Error, "invalid-host", origin);
                reader
                    .diagnostics
                    .push(found.because(format!("\"{host}\" {error}"), "the rule is not served"));
            }
        }
    }
    rules
}

/// Secrets of `spec.tls` that do not exist; what is wrong inside one is said with the certificate.
fn missing_secrets(reader: &mut Reader<'_>, context: &Context<'_>) {
    let tls = reader.ingress.object.spec.as_ref().and_then(|spec| spec.tls.as_ref());
    for (at, name) in tls.into_iter().flatten().map(|tls| tls.secret_name.as_deref()).enumerate() {
        let Some(name) = name.filter(|name| !name.is_empty()) else { continue };
        let key = ObjectKey { namespace: reader.key.namespace.clone(), name: name.into() };
        if !context.resources.secrets.contains_key(&key) {
            let origin = reader.field(&format!("spec.tls[{at}].secretName"));
            let found = Diagnostic::new(Severity::Error, "missing-reference", origin);
            let found = found.because(
                format!("Secret {key} does not exist"),
                "the default certificate is shown to clients of its hosts",
            );
            reader.diagnostics.push(found);
        }
    }
}

fn treatment(reader: &mut Reader<'_>, context: &Context<'_>) -> Treatment {
    let defaults = context.defaults;
    let mut closed = unsupported(reader, context.options).or(defaults.closed);
    let access = open(access::read(reader, &defaults.access), &mut closed).flatten();
    let headers = open(headers::read(reader, context), &mut closed).flatten();
    let redirect = open(redirect::whole(reader), &mut closed).flatten();
    let rewrite = open(rewrite::target(reader), &mut closed).flatten();
    let upstream = open(upstream::read(reader, context), &mut closed).unwrap_or_default();
    let patterns = reader.switch("use-regex", false);
    Treatment {
        closed,
        access,
        cors: cors::read(reader),
        headers,
        redirect,
        to_https: redirect::to_https(reader, defaults),
        app_root: redirect::app_root(reader),
        rewrite,
        paths: if patterns { Paths::Patterns } else { Paths::Plain },
        policy: limits::read(reader, defaults),
        upstream,
    }
}

/// The value, or the reason to close kept as the first one.
fn open<T>(read: Result<T, Closed>, closed: &mut Option<Closed>) -> Option<T> {
    read.map_err(|reason| *closed = closed.or(Some(reason))).ok()
}

/// Names every annotation that does not work, and closes where it protects.
fn unsupported(reader: &mut Reader<'_>, options: &Options) -> Option<Closed> {
    let mut closed = None;
    for (name, value) in reader.all().collect::<Vec<_>>() {
        let Some(known) = registry::find(name) else {
            unknown(reader, name);
            continue;
        };
        let Support::Missing { class, effect, inert } = known.support else { continue };
        if asks_for_nothing(value, inert) {
            continue;
        }
        let problem = format!("{name} is not supported yet: {effect}");
        let (severity, code, consequence) = match (class, options.unsupported_protection) {
            (Class::Feature, _) => {
                (Severity::Warning, "unsupported-annotation", "the Ingress is served without it")
            }
            (Class::Protection, UnsupportedProtection::Ignored) => (
                Severity::Warning,
                "unsupported-protection",
                "the Ingress is served without it, as the flag says",
            ),
            (Class::Protection, UnsupportedProtection::Closed) => {
                closed = Some(Closed(AnswerReason::ProtectionUnavailable));
                (Severity::Error, "unsupported-protection", CLOSED)
            }
        };
        let consequence = if name == "canary" { "the Ingress is not served" } else { consequence };
        reader.note(severity, code, name, (problem, consequence.to_owned()));
    }
    closed
}

fn unknown(reader: &mut Reader<'_>, name: &str) {
    let nearest = registry::nearest(name).map(|nearest| format!("; did you mean {nearest}?"));
    let problem = format!("ingress-nginx has no annotation {name}{}", nearest.unwrap_or_default());
    reader.note(Severity::Warning, "unknown-annotation", name, (problem, "it changes nothing".to_owned()));
}

/// Whether the value leaves the annotation's default as it is.
fn asks_for_nothing(value: &str, inert: &[&str]) -> bool {
    inert
        .iter()
        .any(|nothing| value == *nothing || (switch(value).is_some() && switch(value) == switch(nothing)))
}
