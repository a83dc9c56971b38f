//! Reviews an Ingress on a copy of the engine. The original never sees the result: the two share only what neither changes.

use std::collections::BTreeSet;
use std::sync::Arc;

use fairway_objects::diagnostic::Diagnostic;
use fairway_objects::object::{Object, ObjectKey};
use fairway_objects::resources::Change;
use k8s_openapi::api::networking::v1::Ingress;

use crate::engine::{Engine, EngineOutput};

/// A reference may precede its target: objects come in any order.
const MISSING_REFERENCE_CODE: &str = "missing-reference";
/// The only diagnostic about an Ingress of another class.
const INGRESS_CLASS_CODE: &str = "ingress-class";

/// A copy of the engine.
#[derive(Debug)]
pub struct Trial(Engine);

/// The result of a review.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The object belongs to another controller.
    NotOurs,
    /// It would be served, except as the diagnostics say.
    Ours {
        /// New errors in the object or in others. Neither missing references nor errors that existed before.
        errors: Vec<Diagnostic>,
        /// All other diagnostics about it, and new warnings about other objects.
        warnings: Vec<Diagnostic>,
    },
}

impl Trial {
    /// A copy of `engine`.
    #[must_use]
    pub fn new(engine: &Engine) -> Self {
        Self(engine.clone())
    }

    /// Reviews `ingress` at `now`, in seconds since 1970.
    #[must_use]
    pub fn evaluate(self, ingress: Ingress, now: i64) -> Verdict {
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

fn verdict(key: &ObjectKey, before: Option<&EngineOutput>, after: &EngineOutput) -> Verdict {
    let diagnostics: Vec<_> = all_diagnostics(after).filter(|it| is_about(it, key)).collect();
    let served = after.translation.status.contains_key(key);
    if !served && diagnostics.iter().all(|it| it.code == INGRESS_CLASS_CODE) {
        return Verdict::NotOurs;
    }
    let others = new_diagnostics(before, after).into_iter().filter(|it| !is_about(it, key));
    let old: BTreeSet<_> = before
        .into_iter()
        .flat_map(all_diagnostics)
        .filter(|it| is_about(it, key))
        .map(ToString::to_string)
        .collect();
    let (mut errors, mut warnings) = (Vec::new(), Vec::new());
    for it in diagnostics.into_iter().chain(others) {
        let is_error =
            it.severity == fairway_objects::diagnostic::Severity::Error && it.code != MISSING_REFERENCE_CODE;
        if is_error && !old.contains(&it.to_string()) {
            errors.push(it.clone());
        } else {
            warnings.push(it.clone());
        }
    }
    Verdict::Ours { errors, warnings }
}

/// The diagnostics that are new, found by visiting only what differs.
fn new_diagnostics<'o>(before: Option<&'o EngineOutput>, after: &'o EngineOutput) -> Vec<&'o Diagnostic> {
    let Some(before) = before else { return all_diagnostics(after).collect() };
    let (old, new) = (before.diagnostics(), after.diagnostics());
    let translated = new.changed_since(old).flat_map(|scope| {
        let old = old.group(scope);
        new.group(scope).iter().filter(move |it| !old.contains(it))
    });
    let compiled = after.problems.iter().filter(|it| !before.problems.contains(it));
    translated.chain(compiled).collect()
}

fn all_diagnostics(outcome: &EngineOutput) -> impl Iterator<Item = &Diagnostic> {
    outcome.diagnostics().iter().chain(outcome.problems.iter())
}

fn is_about(it: &Diagnostic, key: &ObjectKey) -> bool {
    let origin = &it.origin;
    origin.name == key.name && origin.namespace == key.namespace && *origin.kind == *"Ingress"
}
