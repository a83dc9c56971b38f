//! Finds the object and the field that explain a difference, from the settings of the objects that affect the differing part. Uses
//! the diagnostics of the translation where there are any.

use std::collections::BTreeMap;

use fairway_ingress::{Support, known_annotations};
use fairway_migrate::unknown_without;
use fairway_model::{
    Action, CertificateKey, FixedResponse, FixedResponseReason, HostPattern, Origin, Rule, VirtualHost,
};
use fairway_objects::diagnostic::{Diagnostic, Severity};
use fairway_objects::object::ObjectKey;
use serde::Serialize;

use crate::facts::Objects;
use crate::located::{Located, is_of_object};
use crate::probe::Probe;
use crate::response::Part;
use crate::topics;

/// The explanation of a difference.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Cause {
    /// The object, such as `Ingress shop/web` or `ConfigMap ingress-nginx/settings`, or `no object`.
    pub object: String,
    /// The field of the object; empty for the object as a whole.
    pub field: String,
    /// The reason, as a sentence without a full stop.
    pub why: String,
}

/// A difference to explain.
pub(crate) struct DifferenceContext<'a> {
    pub(crate) probe: &'a Probe,
    pub(crate) part: &'a Part,
    pub(crate) statuses: &'a [u16],
    pub(crate) located: Located<'a>,
}

/// Explains a difference.
pub(crate) fn cause(objects: &Objects<'_>, difference: &DifferenceContext<'_>) -> Cause {
    if matches!(difference.part, Part::Certificate | Part::CertificateNames | Part::CertificateTrust) {
        return certificate_cause(objects, difference);
    }
    let Some(host) = difference.located.host else { return no_host_cause(objects, difference) };
    let own_rule = rule_of(difference, host);
    if let Some(closed) = own_rule.and_then(|rule| closed_rule_cause(objects, difference, rule)) {
        return closed;
    }
    let own_key = own_rule.map(|rule| key_of(&rule.origin));
    let names = topics::annotations(difference.part, difference.statuses);
    let mut ingresses: Vec<ObjectKey> = own_key.iter().cloned().collect();
    let others = ingresses_of(objects, host);
    ingresses.extend(others.into_iter().filter(|key| Some(key) != own_key.as_ref()));
    let annotated = ingresses.iter().enumerate().flat_map(|(at, key)| {
        // Other Ingresses of the host matter only if they are canaries or have host-wide annotations.
        let all = objects.annotated.annotations_of(key);
        let has_a_say = at == 0 || all.is_some_and(|all| affects_other_ingresses(all, objects.prefix));
        names.iter().filter(move |_| has_a_say).filter_map(move |name| written(objects, key, name))
    });
    let mut annotated: Vec<Annotation<'_>> = annotated.collect();
    // Prefer an annotation with a diagnostic, otherwise the likeliest one.
    annotated.sort_by_key(|it| it.reported.is_none());
    match (annotated.first(), topics::settings(difference.part, difference.statuses), own_rule) {
        (Some(annotation), ..) => annotation.cause(),
        (None, keys @ [_, ..], _) => settings_cause(objects, difference, keys),
        (None, [], Some(rule)) => rule_cause(objects, difference, rule),
        (None, [], None) => no_rule_cause(host),
    }
}

/// The rule that serves the probe, otherwise the one with the closest path, because its path or path type may be the reason.
fn rule_of<'a>(difference: &DifferenceContext<'a>, host: &'a VirtualHost) -> Option<&'a Rule> {
    difference.located.rule.filter(|rule| is_of_object(rule)).or_else(|| {
        let path = difference.probe.target.split('?').next().unwrap_or_default();
        let rules = host.routes.iter().flat_map(|route| &route.rules).filter(|rule| is_of_object(rule));
        rules.max_by_key(|rule| common_prefix_len(&rule.labels.path, path))
    })
}

/// Why the rule is closed: unsupported protection, or an object that is missing or not part of the input.
fn closed_rule_cause(
    objects: &Objects<'_>,
    difference: &DifferenceContext<'_>,
    rule: &Rule,
) -> Option<Cause> {
    let Action::FixedResponse(FixedResponse { status, reason }) = rule.action else { return None };
    if reason == FixedResponseReason::NoRoute || !difference.statuses.contains(&status) {
        return None;
    }
    let key = key_of(&rule.origin);
    let is_error = |it: &Diagnostic| it.severity == Severity::Error;
    let all = objects.diagnostics_of(&rule.origin.kind, &key);
    let closing = all.filter(|it| is_error(it) || unknown_without(it).is_some());
    // Prefer diagnostics about this path to those about the whole object, and known problems to unknown ones.
    let reported =
        closing.max_by_key(|it| (it.origin.field.starts_with(&*rule.origin.field), is_error(it)))?;
    Some(Cause {
        object: format!("{} {key}", rule.origin.kind),
        field: reported.origin.field.to_string(),
        why: diagnostic_text(reported),
    })
}

fn common_prefix_len(left: &str, right: &str) -> usize {
    left.bytes().zip(right.bytes()).take_while(|(one, right)| one == right).count()
}

fn key_of(origin: &Origin) -> ObjectKey {
    ObjectKey::new(&origin.namespace, &origin.name)
}

/// The Ingresses that contribute to a host.
fn ingresses_of(objects: &Objects<'_>, host: &VirtualHost) -> Vec<ObjectKey> {
    let all = objects.translation.status.values();
    all.filter(|ingress| ingress.hosts.contains(&host.key.host))
        .map(|ingress| ingress.ingress.clone())
        .collect()
}

fn affects_other_ingresses(annotations: &BTreeMap<String, String>, prefix: &str) -> bool {
    ["canary", "use-regex", "rewrite-target", "from-to-www-redirect", "server-alias", "app-root"]
        .iter()
        .any(|name| annotations.contains_key(&format!("{prefix}/{name}")))
}

/// An annotation of an Ingress.
struct Annotation<'o> {
    key: ObjectKey,
    name: String,
    value: &'o str,
    reported: Option<&'o Diagnostic>,
    differs: Option<&'static str>,
}

fn written<'o>(objects: &Objects<'o>, key: &ObjectKey, name: &str) -> Option<Annotation<'o>> {
    let full_name = if name.contains('/') { name.to_owned() } else { format!("{}/{name}", objects.prefix) };
    let value = objects.annotated.annotations_of(key)?.get(&full_name)?;
    let field = annotation_field(&full_name);
    let about = |it: &&Diagnostic| *it.origin.field == *field && it.severity != Severity::Note;
    let reported = objects.diagnostics_of("Ingress", key).filter(about).min_by_key(|it| it.severity);
    let known = known_annotations().iter().find(|known| known.name == name);
    let differs = known.and_then(|known| match known.support {
        Support::Differs { how } => Some(how),
        _ => None,
    });
    Some(Annotation { key: key.clone(), name: full_name, value, reported, differs })
}

impl Annotation<'_> {
    fn cause(&self) -> Cause {
        let why = match (self.reported, self.differs) {
            (Some(reported), _) => diagnostic_text(reported),
            (None, Some(how)) => {
                format!("its value is {:?}; in Fairway it works with a difference: {how}", self.value)
            }
            (None, None) => format!("its value {:?} decides this", self.value),
        };
        Cause { object: format!("Ingress {}", self.key), field: annotation_field(&self.name), why }
    }
}

fn annotation_field(name: &str) -> String {
    format!("metadata.annotations[\"{name}\"]")
}

fn diagnostic_text(reported: &Diagnostic) -> String {
    format!("{}; {}", reported.problem, reported.consequence)
}

fn settings_cause(objects: &Objects<'_>, difference: &DifferenceContext<'_>, keys: &[&str]) -> Cause {
    let written = objects.settings.map_or_else(
        || "the settings ConfigMap, which is not given (--configmap)".to_owned(),
        |name| format!("ConfigMap {name}"),
    );
    let others = match keys {
        [_] => String::new(),
        [_, others @ ..] => format!(" (or {})", others.join(", ")),
        [] => String::new(),
    };
    let key = keys.first().copied().unwrap_or_default();
    Cause {
        object: written,
        field: format!("data[\"{key}\"]"),
        why: format!("no annotation affects the {}; the setting {key}{others} does", difference.part),
    }
}

fn rule_cause(objects: &Objects<'_>, difference: &DifferenceContext<'_>, rule: &Rule) -> Cause {
    let (key, path) = (key_of(&rule.origin), &rule.labels.path);
    let kind = &rule.origin.kind;
    let at_field =
        |it: &&Diagnostic| it.origin.field.starts_with(&*rule.origin.field) && it.severity != Severity::Note;
    let reported = objects.diagnostics_of(kind, &key).filter(at_field).min_by_key(|it| it.severity);
    let (end, why) = match (difference.part, difference.located.rule) {
        (Part::Status, Some(served)) if std::ptr::eq(served, rule) => {
            (".backend", format!("this rule serves the request; its backend is {}", service(rule)))
        }
        (Part::Status, _) => ("", format!("no rule has this path; the closest path is {path}")),
        (Part::Received(_) | Part::Body | Part::Exchange, _) => {
            (".backend", format!("this rule leads to {}", service(rule)))
        }
        _ => ("", "this rule serves the request; no annotation of its Ingress affects this".to_owned()),
    };
    let why = reported.map_or(why, diagnostic_text);
    let field = reported
        .map_or_else(|| format!("{}{end}", rule.origin.field), |reported| reported.origin.field.to_string());
    Cause { object: format!("{kind} {key}"), field, why }
}

fn service(rule: &Rule) -> String {
    let labels = &rule.labels;
    if labels.service.is_empty() {
        return "no Service".to_owned();
    }
    format!("Service {}/{}:{}", labels.namespace, labels.service, labels.service_port)
}

fn no_rule_cause(host: &VirtualHost) -> Cause {
    let why = match &host.key.host {
        HostPattern::Any => {
            "no object has this host; each controller returns its default response".to_owned()
        }
        name => format!("no rule of the host {name} serves this path"),
    };
    Cause { object: "no object".to_owned(), field: String::new(), why }
}

fn no_host_cause(objects: &Objects<'_>, difference: &DifferenceContext<'_>) -> Cause {
    let keys = topics::settings(difference.part, difference.statuses);
    if !keys.is_empty() {
        return settings_cause(objects, difference, keys);
    }
    Cause {
        object: "no object".to_owned(),
        field: String::new(),
        why: format!(
            "no object has the host {}; each controller returns its default response",
            difference.probe.host
        ),
    }
}

fn certificate_cause(objects: &Objects<'_>, difference: &DifferenceContext<'_>) -> Cause {
    let config = objects.config();
    let own_certificate = difference.located.host.and_then(|host| host.certificate.as_ref());
    let (key, why) = match (own_certificate, &config.default_certificate) {
        (Some(own), _) => (own, format!("the certificate of the host {}", difference.probe.host)),
        (None, Some(default)) => {
            (default, "the default certificate: no object has one for this name".to_owned())
        }
        (None, None) => {
            return Cause {
                object: "no object".to_owned(),
                field: String::new(),
                why: "no object has a certificate for this name; each controller uses its own".to_owned(),
            };
        }
    };
    let reported = ObjectKey::parse(&key.0)
        .and_then(|key| objects.diagnostics_of("Secret", &key).min_by_key(|it| it.severity));
    Cause {
        object: secret(objects, key),
        field: "data[\"tls.crt\"]".to_owned(),
        why: reported.map_or(why, diagnostic_text),
    }
}

fn secret(objects: &Objects<'_>, key: &CertificateKey) -> String {
    let origin = objects.config().certificates.get(key).map(|it| &it.origin);
    origin.map_or_else(|| format!("Secret {key}"), |it| format!("{} {}/{}", it.kind, it.namespace, it.name))
}

#[cfg(test)]
mod tests;
