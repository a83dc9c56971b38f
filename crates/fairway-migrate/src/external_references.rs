//! References to objects of kinds that the input does not contain: often it has only the Ingresses, or the caller may not read
//! Secrets. Whether such an object exists is unknown, so a missing reference is reported as a note instead of an error.

use std::collections::BTreeSet;

use fairway_objects::diagnostic::{Diagnostic, Severity};
use fairway_objects::object::Kind;
use fairway_objects::resources::Change;

/// A kind of objects that other objects refer to.
#[derive(Debug)]
struct ReferencedKind {
    kind: Kind,
    plural: &'static str,
    /// The code of the note about a reference to this kind.
    code: &'static str,
}

static REFERENCED_KINDS: [ReferencedKind; 4] = [
    ReferencedKind { kind: Kind::ConfigMap, plural: "ConfigMaps", code: "config-map-unknown" },
    ReferencedKind { kind: Kind::EndpointSlice, plural: "EndpointSlices", code: "endpoints-unknown" },
    ReferencedKind { kind: Kind::Secret, plural: "Secrets", code: "secret-unknown" },
    ReferencedKind { kind: Kind::Service, plural: "Services", code: "service-unknown" },
];

/// The kinds of objects that the input contains.
#[derive(Clone, Debug)]
pub enum SeenKinds {
    /// Manifests with objects of these kinds.
    Manifests(BTreeSet<Kind>),
    /// All objects of a cluster that the caller may read.
    Cluster,
}

/// A kind of objects that the input does not contain.
struct UnseenKind {
    kind: &'static ReferencedKind,
    /// The namespaces whose objects could not be read; empty for all namespaces.
    namespaces: Vec<String>,
    why: String,
}

impl SeenKinds {
    /// The kinds of objects in manifests.
    #[must_use]
    pub fn among(changes: &[Change]) -> Self {
        Self::Manifests(changes.iter().map(|change| change.reference().kind).collect())
    }

    /// Turns diagnostics about missing objects into notes if the input cannot tell whether they exist.
    pub fn soften_unknown_references(&self, diagnostics: &mut [Diagnostic]) {
        let all = &*diagnostics;
        let unseen: Vec<UnseenKind> = REFERENCED_KINDS.iter().filter_map(|it| self.unseen(it, all)).collect();
        for found in diagnostics.iter_mut().filter(|it| it.severity != Severity::Note) {
            if let Some(unknown) = unseen.iter().find_map(|it| it.unknown(found)) {
                *found = unknown;
            }
        }
    }

    fn unseen(&self, referenced: &'static ReferencedKind, diagnostics: &[Diagnostic]) -> Option<UnseenKind> {
        let mut about = diagnostics.iter().filter(|it| *it.origin.kind == *referenced.kind.name());
        match self {
            // An object with an error was still part of the input and has an origin there. An object that a flag names may not be.
            Self::Manifests(kinds)
                if kinds.contains(&referenced.kind) || about.any(|it| it.origin.source.is_some()) =>
            {
                None
            }
            Self::Manifests(_) => {
                let why = format!("the input has no {}", referenced.plural);
                Some(UnseenKind { kind: referenced, namespaces: Vec::new(), why })
            }
            Self::Cluster => {
                let denied: Vec<String> = about
                    .filter(|it| it.code == "no-permission")
                    .map(|it| it.origin.namespace.to_string())
                    .collect();
                let namespaces =
                    if denied.iter().any(String::is_empty) { Vec::new() } else { denied.clone() };
                let why = format!("you may not read {} there", referenced.plural);
                (!denied.is_empty()).then_some(UnseenKind { kind: referenced, namespaces, why })
            }
        }
    }
}

impl UnseenKind {
    /// The note that replaces a diagnostic; `None` if it is not about a missing object of this kind.
    fn unknown(&self, found: &Diagnostic) -> Option<Diagnostic> {
        let (namespace, whether, without) = match self.kind.kind {
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
        let unknown = Diagnostic::new(Severity::Note, self.kind.code, found.origin.clone());
        let problem = format!("cannot tell whether {whether}: {}", self.why);
        Some(unknown.because(problem, format!("without {without}, {}", found.consequence)))
    }
}

/// The plural of the kind whose absence makes a finding unknown; `None` for other findings.
#[must_use]
pub fn unknown_without(found: &Diagnostic) -> Option<&'static str> {
    REFERENCED_KINDS.iter().find(|it| it.code == found.code).map(|it| it.plural)
}

#[cfg(test)]
mod tests {
    use fairway_model::{Origin, SourceLine};

    use super::*;

    fn sample_diagnostic(code: &'static str, kind: &str, problem: &str) -> Diagnostic {
        let origin = Origin::object(kind, "shop", "web");
        Diagnostic::new(Severity::Error, code, origin).because(problem, "its paths answer 503")
    }

    fn missing(problem: &str) -> Diagnostic {
        sample_diagnostic("missing-reference", "Ingress", problem)
    }

    fn judged(seen_kinds: &SeenKinds, mut all: Vec<Diagnostic>) -> Vec<(Severity, String)> {
        seen_kinds.soften_unknown_references(&mut all);
        all.into_iter().map(|it| (it.severity, format!("{}; {}", it.problem, it.consequence))).collect()
    }

    #[test]
    fn a_missing_secret_is_unknown_if_the_input_has_no_secrets() {
        let seen_kinds = SeenKinds::Manifests([Kind::Ingress, Kind::Service, Kind::ConfigMap].into());
        let all = vec![
            missing("Secret shop/users does not exist"),
            missing("Service shop/web does not exist"),
            missing("Secret shop/users has no ca.crt"),
            sample_diagnostic("no-endpoints", "Service", "port 80 has no endpoint that is ready"),
        ];
        let cases = [
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
        assert_eq!(judged(&seen_kinds, all), cases.map(|(severity, said)| (severity, said.to_owned())));
    }

    #[test]
    fn a_secret_is_missing_if_the_input_has_others_or_unreadable_ones() {
        let seen_kinds = SeenKinds::Manifests([Kind::Ingress, Kind::Secret].into());
        let gone = || missing("Secret shop/users does not exist");
        assert_eq!(judged(&seen_kinds, vec![gone()])[0].0, Severity::Error);
        let seen_kinds = SeenKinds::Manifests([Kind::Ingress].into());
        let mut broken = sample_diagnostic("wrong-type", "Secret", "the value is no base64");
        broken.origin.source = Some(SourceLine { file: "secrets.yaml".into(), line: 3 });
        assert_eq!(judged(&seen_kinds, vec![broken, gone()])[1].0, Severity::Error);
    }

    #[test]
    fn an_object_that_a_flag_names_does_not_count_as_input() {
        let seen_kinds = SeenKinds::Manifests([Kind::Ingress].into());
        let of_flag = sample_diagnostic("missing-reference", "Secret", "Secret shop/default does not exist");
        let all = judged(&seen_kinds, vec![of_flag, missing("Secret shop/users does not exist")]);
        assert_eq!((all[0].0, all[1].0), (Severity::Note, Severity::Note), "{all:?}");
    }

    #[test]
    fn a_cluster_is_complete_except_for_unreadable_objects() {
        let gone = || missing("Secret shop/users does not exist");
        let denied = |namespace: &str| {
            let origin = Origin::object("Secret", namespace, "*");
            Diagnostic::new(Severity::Error, "no-permission", origin)
        };
        assert_eq!(judged(&SeenKinds::Cluster, vec![gone()])[0].0, Severity::Error);
        assert_eq!(judged(&SeenKinds::Cluster, vec![denied("other"), gone()])[1].0, Severity::Error);
        for namespace in ["", "shop"] {
            let all = judged(&SeenKinds::Cluster, vec![denied(namespace), gone()]);
            assert_eq!((all[0].0, all[1].0), (Severity::Error, Severity::Note), "{namespace}");
            assert!(all[1].1.contains("you may not read Secrets there"), "{}", all[1].1);
        }
    }
}
