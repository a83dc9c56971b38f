//! What would become of an Ingress, tried on a copy of the engine. Nothing that is tried is ever seen by the engine that
//! was copied: the two share what neither changes.

use std::collections::BTreeSet;
use std::sync::Arc;

use fairway_objects::diagnostic::Diagnostic;
use fairway_objects::object::{Object, ObjectKey};
use fairway_objects::resources::Change;
use k8s_openapi::api::networking::v1::Ingress;

use crate::engine::{Engine, Outcome};

/// What a reference leads to may be made after what refers to it: objects come in any order.
const MAY_COME: &str = "missing-reference";
/// Of an Ingress of another class nothing else is said.
const CLASS: &str = "ingress-class";

/// A copy of the engine.
#[derive(Debug)]
pub struct Trial(Engine);

/// What would become of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is another controller's.
    NotOurs,
    /// It would be served, as far as the diagnostics do not say otherwise.
    Ours {
        /// Errors that it brings: in itself, or for others. What it refers to and does not exist is no such error, nor is
        /// what was wrong with it before.
        errors: Vec<Diagnostic>,
        /// All else that there is to say about it, and warnings that it brings for others.
        warnings: Vec<Diagnostic>,
    },
}

impl Trial {
    /// A copy of `engine`.
    #[must_use]
    pub fn of(engine: &Engine) -> Self {
        Self(engine.clone())
    }

    /// What would become of `ingress` at `now`, in seconds since 1970.
    #[must_use]
    pub fn judge(self, ingress: Ingress, now: i64) -> Verdict {
        let Self(mut engine) = self;
        let before = engine.current().cloned();
        let object = Object::Ingress(Arc::new(ingress));
        let key = object.reference().key;
        engine.update(vec![Change::Set(object, None)], now);
        match engine.current() {
            Some(after) => verdict(&key, before.as_ref(), after),
            None => Verdict::NotOurs,
        }
    }
}

fn verdict(key: &ObjectKey, before: Option<&Outcome>, after: &Outcome) -> Verdict {
    let own: Vec<_> = all(after).filter(|it| is_about(it, key)).collect();
    let served = after.translation.status.contains_key(key);
    if !served && own.iter().all(|it| it.code == CLASS) {
        return Verdict::NotOurs;
    }
    let others = brought(before, after).into_iter().filter(|it| !is_about(it, key));
    let old: BTreeSet<_> =
        before.into_iter().flat_map(all).filter(|it| is_about(it, key)).map(ToString::to_string).collect();
    let (mut errors, mut warnings) = (Vec::new(), Vec::new());
    for it in own.into_iter().chain(others) {
        let is_error = it.severity == fairway_objects::diagnostic::Severity::Error && it.code != MAY_COME;
        if is_error && !old.contains(&it.to_string()) {
            errors.push(it.clone());
        } else {
            warnings.push(it.clone());
        }
    }
    Verdict::Ours { errors, warnings }
}

/// The diagnostics that are there now and were not, found by visiting what differs.
fn brought<'o>(before: Option<&'o Outcome>, after: &'o Outcome) -> Vec<&'o Diagnostic> {
    let Some(before) = before else { return all(after).collect() };
    let (old, new) = (before.diagnostics(), after.diagnostics());
    let translated = new.changed_since(old).flat_map(|scope| {
        let old = old.of(scope);
        new.of(scope).iter().filter(move |it| !old.contains(it))
    });
    let compiled = after.problems.iter().filter(|it| !before.problems.contains(it));
    translated.chain(compiled).collect()
}

fn all(outcome: &Outcome) -> impl Iterator<Item = &Diagnostic> {
    outcome.diagnostics().iter().chain(outcome.problems.iter())
}

fn is_about(it: &Diagnostic, key: &ObjectKey) -> bool {
    let origin = &it.origin;
    origin.name == key.name && origin.namespace == key.namespace && *origin.kind == *"Ingress"
}
