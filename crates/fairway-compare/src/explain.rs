//! The object and the field that explain a difference. Judges by what the objects say about the part that differs, and takes the
//! words of translation where it said something.

use std::collections::BTreeMap;

use fairway_ingress::{Support, known_annotations};
use fairway_migrate::unknown_without;
use fairway_model::{Action, Answer, AnswerReason, CertificateKey, HostPattern, Origin, Rule, VirtualHost};
use fairway_objects::diagnostic::{Diagnostic, Severity};
use fairway_objects::object::ObjectKey;
use serde::Serialize;

use crate::answer::Part;
use crate::facts::Objects;
use crate::located::{Located, is_of_object};
use crate::probe::Probe;
use crate::topics;

/// What explains a difference.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Cause {
    /// `Ingress shop/web`, `ConfigMap ingress-nginx/settings`; what it is about where no object is.
    pub object: String,
    /// The field of the object; empty for the object as a whole.
    pub field: String,
    /// As a sentence without a full stop.
    pub why: String,
}

/// A difference to explain.
pub(crate) struct Asked<'a> {
    pub(crate) probe: &'a Probe,
    pub(crate) part: &'a Part,
    pub(crate) statuses: &'a [u16],
    pub(crate) located: Located<'a>,
}

/// Explains it.
pub(crate) fn cause(objects: &Objects<'_>, asked: &Asked<'_>) -> Cause {
    if matches!(asked.part, Part::Certificate | Part::CertificateNames | Part::CertificateTrust) {
        return of_certificate(objects, asked);
    }
    let Some(host) = asked.located.host else { return without_host(objects, asked) };
    let own = rule_of(asked, host);
    if let Some(closed) = own.and_then(|rule| of_closed(objects, asked, rule)) {
        return closed;
    }
    let own_key = own.map(|rule| key_of(&rule.origin));
    let names = topics::annotations(asked.part, asked.statuses);
    let mut ingresses: Vec<ObjectKey> = own_key.iter().cloned().collect();
    let others = ingresses_of(objects, host);
    ingresses.extend(others.into_iter().filter(|key| Some(key) != own_key.as_ref()));
    let annotated = ingresses.iter().enumerate().flat_map(|(at, key)| {
        // Of other Ingresses on the host, canaries and what holds for the whole host have a say.
        let all = objects.annotated.of(key);
        let has_a_say = at == 0 || all.is_some_and(|all| touches_others(all, objects.prefix));
        names.iter().filter(move |_| has_a_say).filter_map(move |name| written(objects, key, name))
    });
    let mut annotated: Vec<Annotation<'_>> = annotated.collect();
    // The one of which translation says something, else the likeliest.
    annotated.sort_by_key(|it| it.said.is_none());
    match (annotated.first(), topics::settings(asked.part, asked.statuses), own) {
        (Some(annotation), ..) => annotation.cause(),
        (None, keys @ [_, ..], _) => of_settings(objects, asked, keys),
        (None, [], Some(rule)) => of_rule(objects, asked, rule),
        (None, [], None) => without_rule(host),
    }
}

/// The rule that serves the probe; else the one whose path comes closest, because its path or its type may be the reason.
fn rule_of<'a>(asked: &Asked<'a>, host: &'a VirtualHost) -> Option<&'a Rule> {
    asked.located.rule.filter(|rule| is_of_object(rule)).or_else(|| {
        let path = asked.probe.target.split('?').next().unwrap_or_default();
        let rules = host.routes.iter().flat_map(|route| &route.rules).filter(|rule| is_of_object(rule));
        rules.max_by_key(|rule| in_common(&rule.labels.path, path))
    })
}

/// What closed the rule: a protection that is not given, or an object that is missing or was not among those that were read.
fn of_closed(objects: &Objects<'_>, asked: &Asked<'_>, rule: &Rule) -> Option<Cause> {
    let Action::Answer(Answer { status, reason }) = rule.action else { return None };
    if reason == AnswerReason::NoRoute || !asked.statuses.contains(&status) {
        return None;
    }
    let key = key_of(&rule.origin);
    let is_error = |it: &Diagnostic| it.severity == Severity::Error;
    let all = objects.said_about(&rule.origin.kind, &key);
    let closing = all.filter(|it| is_error(it) || unknown_without(it).is_some());
    // Rather about this path than about the whole object, and rather what is known.
    let said = closing.max_by_key(|it| (it.origin.field.starts_with(&*rule.origin.field), is_error(it)))?;
    Some(Cause {
        object: format!("{} {key}", rule.origin.kind),
        field: said.origin.field.to_string(),
        why: words_of(said),
    })
}

fn in_common(one: &str, other: &str) -> usize {
    one.bytes().zip(other.bytes()).take_while(|(one, other)| one == other).count()
}

fn key_of(origin: &Origin) -> ObjectKey {
    ObjectKey::new(&origin.namespace, &origin.name)
}

/// The Ingresses that have a part in a host.
fn ingresses_of(objects: &Objects<'_>, host: &VirtualHost) -> Vec<ObjectKey> {
    let all = objects.translation.status.values();
    all.filter(|ingress| ingress.hosts.contains(&host.key.host))
        .map(|ingress| ingress.ingress.clone())
        .collect()
}

fn touches_others(annotations: &BTreeMap<String, String>, prefix: &str) -> bool {
    ["canary", "use-regex", "rewrite-target", "from-to-www-redirect", "server-alias", "app-root"]
        .iter()
        .any(|name| annotations.contains_key(&format!("{prefix}/{name}")))
}

/// An annotation that an Ingress has.
struct Annotation<'o> {
    key: ObjectKey,
    name: String,
    value: &'o str,
    said: Option<&'o Diagnostic>,
    differs: Option<&'static str>,
}

fn written<'o>(objects: &Objects<'o>, key: &ObjectKey, name: &str) -> Option<Annotation<'o>> {
    let whole = if name.contains('/') { name.to_owned() } else { format!("{}/{name}", objects.prefix) };
    let value = objects.annotated.of(key)?.get(&whole)?;
    let field = annotation_field(&whole);
    let about = |it: &&Diagnostic| *it.origin.field == *field && it.severity != Severity::Note;
    let said = objects.said_about("Ingress", key).filter(about).min_by_key(|it| it.severity);
    let known = known_annotations().iter().find(|known| known.name == name);
    let differs = known.and_then(|known| match known.support {
        Support::Differs { how } => Some(how),
        _ => None,
    });
    Some(Annotation { key: key.clone(), name: whole, value, said, differs })
}

impl Annotation<'_> {
    fn cause(&self) -> Cause {
        let why = match (self.said, self.differs) {
            (Some(said), _) => words_of(said),
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

fn words_of(said: &Diagnostic) -> String {
    format!("{}; {}", said.problem, said.consequence)
}

fn of_settings(objects: &Objects<'_>, asked: &Asked<'_>, keys: &[&str]) -> Cause {
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
        why: format!("no annotation is about the {}: the setting {key}{others} decides it", asked.part),
    }
}

fn of_rule(objects: &Objects<'_>, asked: &Asked<'_>, rule: &Rule) -> Cause {
    let (key, path) = (key_of(&rule.origin), &rule.labels.path);
    let kind = &rule.origin.kind;
    let at_field =
        |it: &&Diagnostic| it.origin.field.starts_with(&*rule.origin.field) && it.severity != Severity::Note;
    let said = objects.said_about(kind, &key).filter(at_field).min_by_key(|it| it.severity);
    let (end, why) = match (asked.part, asked.located.rule) {
        (Part::Status, Some(served)) if std::ptr::eq(served, rule) => (
            ".backend",
            format!("this rule serves the request, and its backend, {}, answers or not", service(rule)),
        ),
        (Part::Status, _) => ("", format!("no rule has this path; the path closest to it is {path}")),
        (Part::Seen(_) | Part::Body | Part::Exchange, _) => {
            (".backend", format!("this rule leads to {}", service(rule)))
        }
        _ => ("", "this rule serves the request, and no annotation of its Ingress is about this".to_owned()),
    };
    let why = said.map_or(why, words_of);
    let field =
        said.map_or_else(|| format!("{}{end}", rule.origin.field), |said| said.origin.field.to_string());
    Cause { object: format!("{kind} {key}"), field, why }
}

fn service(rule: &Rule) -> String {
    let labels = &rule.labels;
    if labels.service.is_empty() {
        return "no Service".to_owned();
    }
    format!("Service {}/{}:{}", labels.namespace, labels.service, labels.service_port)
}

fn without_rule(host: &VirtualHost) -> Cause {
    let why = match &host.key.host {
        HostPattern::Any => {
            "no object has this host: what answers is the default of each controller".to_owned()
        }
        name => format!("no rule of the host {name} serves this path"),
    };
    Cause { object: "no object".to_owned(), field: String::new(), why }
}

fn without_host(objects: &Objects<'_>, asked: &Asked<'_>) -> Cause {
    let keys = topics::settings(asked.part, asked.statuses);
    if !keys.is_empty() {
        return of_settings(objects, asked, keys);
    }
    Cause {
        object: "no object".to_owned(),
        field: String::new(),
        why: format!(
            "no object has the host {}: what answers is the default of each controller",
            asked.probe.host
        ),
    }
}

fn of_certificate(objects: &Objects<'_>, asked: &Asked<'_>) -> Cause {
    let config = objects.config();
    let own = asked.located.host.and_then(|host| host.certificate.as_ref());
    let (key, why) = match (own, &config.default_certificate) {
        (Some(own), _) => (own, format!("the certificate of the host {}", asked.probe.host)),
        (None, Some(default)) => {
            (default, "the default certificate: no object has one for this name".to_owned())
        }
        (None, None) => {
            return Cause {
                object: "no object".to_owned(),
                field: String::new(),
                why: "no object has a certificate for this name: each controller shows one of its own"
                    .to_owned(),
            };
        }
    };
    let said = ObjectKey::parse(&key.0)
        .and_then(|key| objects.said_about("Secret", &key).min_by_key(|it| it.severity));
    Cause {
        object: secret(objects, key),
        field: "data[\"tls.crt\"]".to_owned(),
        why: said.map_or(why, words_of),
    }
}

fn secret(objects: &Objects<'_>, key: &CertificateKey) -> String {
    let origin = objects.config().certificates.get(key).map(|it| &it.origin);
    origin.map_or_else(|| format!("Secret {key}"), |it| format!("{} {}/{}", it.kind, it.namespace, it.name))
}

#[cfg(test)]
mod tests;
