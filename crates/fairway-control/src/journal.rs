//! Says each diagnostic once when it appears and once when it is gone.

use std::collections::BTreeMap;

use fairway_objects::diagnostic::{Diagnostic, Diagnostics, Severity};

use crate::engine::Outcome;

/// What was said already.
#[derive(Debug, Default)]
pub(crate) struct Journal {
    source: BTreeMap<String, Diagnostic>,
    problems: BTreeMap<String, Diagnostic>,
    translated: Diagnostics,
}

impl Journal {
    /// Compares what is known about files and the current outcome with what was said.
    pub(crate) fn note(&mut self, source: &[Diagnostic], outcome: &Outcome) {
        note_list(&mut self.source, source);
        note_list(&mut self.problems, &outcome.problems);
        let current = outcome.diagnostics();
        for scope in current.changed_since(&self.translated) {
            let (before, now) = (self.translated.of(scope), current.of(scope));
            now.iter().filter(|it| !before.contains(it)).for_each(appeared);
            before.iter().filter(|it| !now.contains(it)).for_each(gone);
        }
        self.translated = current.clone();
    }
}

fn note_list(said: &mut BTreeMap<String, Diagnostic>, now: &[Diagnostic]) {
    let mut current = BTreeMap::new();
    for diagnostic in now {
        let text = diagnostic.to_string();
        if said.remove(&text).is_none() && !current.contains_key(&text) {
            appeared(diagnostic);
        }
        current.insert(text, diagnostic.clone());
    }
    std::mem::replace(said, current).values().for_each(gone);
}

fn appeared(it: &Diagnostic) {
    let Diagnostic { code, origin, problem, consequence, .. } = it;
    match it.severity {
        Severity::Error => tracing::error!(code, %origin, "{problem}; {consequence}"),
        Severity::Warning => tracing::warn!(code, %origin, "{problem}; {consequence}"),
        Severity::Note => tracing::info!(code, %origin, "{problem}; {consequence}"),
    }
}

fn gone(it: &Diagnostic) {
    tracing::info!(code = it.code, origin = %it.origin, "solved: {}", it.problem);
}
