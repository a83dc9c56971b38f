//! Objects that others refer to and that the reader of the input never saw: often only the Ingresses are at hand, or the caller may not
//! read Secrets. Whether such an object exists is then unknown, which is no fault of the object that names it.

use std::collections::BTreeSet;

use fairway_objects::diagnostic::{Diagnostic, Severity};
use fairway_objects::object::Kind;
use fairway_objects::resources::Change;

/// A kind that others refer to.
#[derive(Debug)]
struct Referred {
    kind: Kind,
    several: &'static str,
    /// The code of what is unknown without objects of the kind.
    code: &'static str,
}

static REFERRED: [Referred; 4] = [
    Referred { kind: Kind::ConfigMap, several: "ConfigMaps", code: "config-map-unknown" },
    Referred { kind: Kind::EndpointSlice, several: "EndpointSlices", code: "endpoints-unknown" },
    Referred { kind: Kind::Secret, several: "Secrets", code: "secret-unknown" },
    Referred { kind: Kind::Service, several: "Services", code: "service-unknown" },
];

/// What the reader of objects could see.
#[derive(Clone, Debug)]
pub enum Given {
    /// Manifests, which have objects of these kinds.
    Manifests(BTreeSet<Kind>),
    /// All that the caller may read of a cluster.
    Cluster,
}

/// A kind of which nothing was seen.
struct Unseen {
    of: &'static Referred,
    /// The only namespaces without it; empty where it is all of them.
    namespaces: Vec<String>,
    why: String,
}

impl Given {
    /// The kinds of objects that manifests have.
    #[must_use]
    pub fn among(changes: &[Change]) -> Self {
        Self::Manifests(changes.iter().map(|change| change.reference().kind).collect())
    }

    /// Turns what is said about objects that do not exist into notes, where nobody can know that.
    pub fn judge(&self, diagnostics: &mut [Diagnostic]) {
        let all = &*diagnostics;
        let unseen: Vec<Unseen> = REFERRED.iter().filter_map(|it| self.unseen(it, all)).collect();
        for found in diagnostics.iter_mut().filter(|it| it.severity != Severity::Note) {
            if let Some(unknown) = unseen.iter().find_map(|it| it.unknown(found)) {
                *found = unknown;
            }
        }
    }

    fn unseen(&self, of: &'static Referred, diagnostics: &[Diagnostic]) -> Option<Unseen> {
        let mut about = diagnostics.iter().filter(|it| *it.origin.kind == *of.kind.name());
        match self {
            // One that cannot be read was given all the same, and stands somewhere in the input. What a flag names may not.
            Self::Manifests(kinds)
                if kinds.contains(&of.kind) || about.any(|it| it.origin.source.is_some()) =>
            {
                None
            }
            Self::Manifests(_) => {
                let why = format!("the input has no {}", of.several);
                Some(Unseen { of, namespaces: Vec::new(), why })
            }
            Self::Cluster => {
                let denied: Vec<String> = about
                    .filter(|it| it.code == "no-permission")
                    .map(|it| it.origin.namespace.to_string())
                    .collect();
                let namespaces =
                    if denied.iter().any(String::is_empty) { Vec::new() } else { denied.clone() };
                let why = format!("you may not read {} there", of.several);
                (!denied.is_empty()).then_some(Unseen { of, namespaces, why })
            }
        }
    }
}

impl Unseen {
    /// What to say instead; `None` where it is about something else.
    fn unknown(&self, found: &Diagnostic) -> Option<Diagnostic> {
        let (namespace, whether, without) = match self.of.kind {
            Kind::EndpointSlice if found.code == "no-endpoints" => {
                let port = found.problem.strip_suffix(" has no endpoint that is ready")?;
                (&*found.origin.namespace, format!("{port} has an endpoint that is ready"), "one")
            }
            kind => {
                let (object, _) = found.problem.split_once(" does not exist")?;
                let key = object.strip_prefix(kind.name())?.strip_prefix(' ')?;
                let (namespace, name) = key.split_once('/')?;
                if name.contains(' ') {
                    return None;
                }
                (namespace, format!("{object} exists"), "it")
            }
        };
        if !self.namespaces.is_empty() && !self.namespaces.iter().any(|it| it == namespace) {
            return None;
        }
        let unknown = Diagnostic::new(Severity::Note, self.of.code, found.origin.clone());
        let problem = format!("cannot tell whether {whether}: {}", self.why);
        Some(unknown.because(problem, format!("without {without}, {}", found.consequence)))
    }
}

/// The kind, in the plural, without which this is unknown; `None` for what is known.
#[must_use]
pub fn unknown_without(found: &Diagnostic) -> Option<&'static str> {
    REFERRED.iter().find(|it| it.code == found.code).map(|it| it.several)
}

#[cfg(test)]
mod tests {
    use fairway_model::{Origin, SourceLine};

    use super::*;

    fn found(code: &'static str, kind: &str, problem: &str) -> Diagnostic {
        let origin = Origin::object(kind, "shop", "web");
        Diagnostic::new(Severity::Error, code, origin).because(problem, "its paths answer 503")
    }

    fn missing(problem: &str) -> Diagnostic {
        found("missing-reference", "Ingress", problem)
    }

    fn judged(given: &Given, mut all: Vec<Diagnostic>) -> Vec<(Severity, String)> {
        given.judge(&mut all);
        all.into_iter().map(|it| (it.severity, format!("{}; {}", it.problem, it.consequence))).collect()
    }

    #[test]
    fn nobody_can_tell_whether_a_secret_exists_where_the_input_has_none() {
        let given = Given::Manifests([Kind::Ingress, Kind::Service, Kind::ConfigMap].into());
        let all = vec![
            missing("Secret shop/users does not exist"),
            missing("Service shop/web does not exist"),
            missing("Secret shop/users has no ca.crt"),
            found("no-endpoints", "Service", "port 80 has no endpoint that is ready"),
        ];
        let wanted = [
            (
                Severity::Note,
                "cannot tell whether Secret shop/users exists: the input has no Secrets; without it, its paths \
                 answer 503",
            ),
            (Severity::Error, "Service shop/web does not exist; its paths answer 503"),
            (Severity::Error, "Secret shop/users has no ca.crt; its paths answer 503"),
            (
                Severity::Note,
                "cannot tell whether port 80 has an endpoint that is ready: the input has no EndpointSlices; \
                 without one, its paths answer 503",
            ),
        ];
        assert_eq!(judged(&given, all), wanted.map(|(severity, said)| (severity, said.to_owned())));
    }

    #[test]
    fn a_secret_is_missing_where_others_were_given_or_cannot_be_read() {
        let given = Given::Manifests([Kind::Ingress, Kind::Secret].into());
        let gone = || missing("Secret shop/users does not exist");
        assert_eq!(judged(&given, vec![gone()])[0].0, Severity::Error);
        let given = Given::Manifests([Kind::Ingress].into());
        let mut broken = found("wrong-type", "Secret", "the value is no base64");
        broken.origin.source = Some(SourceLine { file: "secrets.yaml".into(), line: 3 });
        assert_eq!(judged(&given, vec![broken, gone()])[1].0, Severity::Error);
    }

    #[test]
    fn an_object_that_a_flag_names_tells_nothing_about_the_input() {
        let given = Given::Manifests([Kind::Ingress].into());
        let of_flag = found("missing-reference", "Secret", "Secret shop/default does not exist");
        let all = judged(&given, vec![of_flag, missing("Secret shop/users does not exist")]);
        assert_eq!((all[0].0, all[1].0), (Severity::Note, Severity::Note), "{all:?}");
    }

    #[test]
    fn a_cluster_tells_but_for_what_its_reader_may_not_see() {
        let gone = || missing("Secret shop/users does not exist");
        let denied = |namespace: &str| {
            let origin = Origin::object("Secret", namespace, "*");
            Diagnostic::new(Severity::Error, "no-permission", origin)
        };
        assert_eq!(judged(&Given::Cluster, vec![gone()])[0].0, Severity::Error);
        assert_eq!(judged(&Given::Cluster, vec![denied("other"), gone()])[1].0, Severity::Error);
        for namespace in ["", "shop"] {
            let all = judged(&Given::Cluster, vec![denied(namespace), gone()]);
            assert_eq!((all[0].0, all[1].0), (Severity::Error, Severity::Note), "{namespace}");
            assert!(all[1].1.contains("you may not read Secrets there"), "{}", all[1].1);
        }
    }
}
