//! Logs each diagnostic once when it appears and once when it is solved.

use std::collections::BTreeMap;

use fairway_objects::diagnostic::{Diagnostic, Diagnostics, Severity};

use crate::engine::EngineOutput;

/// The diagnostics that were logged.
#[derive(Debug, Default)]
pub(crate) struct DiagnosticsLog {
    source: BTreeMap<String, Diagnostic>,
    problems: BTreeMap<String, Diagnostic>,
    translated: Diagnostics,
}

impl DiagnosticsLog {
    /// Logs the difference to the previous diagnostics of the source and the outcome.
    pub(crate) fn log_changes(&mut self, source: &[Diagnostic], outcome: &EngineOutput) {
        log_list(&mut self.source, source);
        log_list(&mut self.problems, &outcome.problems);
        let current = outcome.diagnostics();
        for scope in current.changed_since(&self.translated) {
            let (before, now) = (self.translated.group(scope), current.group(scope));
            now.iter().filter(|it| !before.contains(it)).for_each(log_new);
            before.iter().filter(|it| !now.contains(it)).for_each(log_solved);
        }
        self.translated = current.clone();
    }
}

fn log_list(logged: &mut BTreeMap<String, Diagnostic>, now: &[Diagnostic]) {
    let mut current = BTreeMap::new();
    for diagnostic in now {
        let text = diagnostic.to_string();
        if logged.remove(&text).is_none() && !current.contains_key(&text) {
            log_new(diagnostic);
        }
        current.insert(text, diagnostic.clone());
    }
    std::mem::replace(logged, current).values().for_each(log_solved);
}

fn log_new(it: &Diagnostic) {
    let Diagnostic { code, origin, problem, consequence, .. } = it;
    match it.severity {
        Severity::Error => tracing::error!(code, %origin, "{problem}; {consequence}"),
        Severity::Warning => tracing::warn!(code, %origin, "{problem}; {consequence}"),
        Severity::Note => tracing::info!(code, %origin, "{problem}; {consequence}"),
    }
}

fn log_solved(it: &Diagnostic) {
    tracing::info!(code = it.code, origin = %it.origin, "solved: {}", it.problem);
}
