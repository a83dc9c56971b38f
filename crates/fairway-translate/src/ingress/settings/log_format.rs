//! The keys of the ConfigMap that say how a line of the access log is written (`log-format-*`).

use std::sync::Arc;

use fairway_model::{Escape, LogFormat, Origin, ReadFormat, Settings};

use crate::diagnostic::{Diagnostic, Severity};
use crate::ingress::settings::problem::KeyProblem;
use crate::options::LogFormatChoice;
use crate::shared::text::switch;

const FORMAT: &str = "log-format-upstream";
const ESCAPE: &str = "log-format-escape-json";

/// The values as they were written.
#[derive(Debug, Default)]
pub(super) struct LogFormatKeys {
    format: Option<String>,
    escape: Escape,
}

impl LogFormatKeys {
    /// Reads one key, by its name behind `log-format-`.
    pub(super) fn read(&mut self, name: &str, value: &str) -> Result<(), KeyProblem> {
        let flag = || switch(value).ok_or(KeyProblem::NotA("true or false"));
        match name {
            "upstream" => self.format = (!value.is_empty()).then(|| value.to_owned()),
            "escape-json" => self.escape = if flag()? { Escape::Json } else { Escape::Nginx },
            "escape-none" if flag()? => {
                return Err(KeyProblem::Lost(
                    "a client could write lines of its own into the log",
                    "values are escaped as they are without the key",
                ));
            }
            "escape-none" => {}
            _ => return Err(KeyProblem::Unknown),
        }
        Ok(())
    }

    /// Puts the format into the settings; one that cannot be read leaves the default. `at` is the place of a key.
    pub(super) fn settle(
        &self,
        choice: LogFormatChoice,
        settings: &mut Settings,
        at: impl Fn(&str) -> Origin,
    ) -> Option<Diagnostic> {
        let (key, text) = match (&self.format, self.escape) {
            (Some(format), _) => (FORMAT, &**format),
            (None, Escape::Json) => (ESCAPE, LogFormat::BUILT_IN),
            (None, Escape::Nginx) => return None,
        };
        let found = |severity, code| Diagnostic::new(severity, code, at(key));
        let invalid = |error| {
            let problem = format!("{key}: {error}");
            found(Severity::Warning, "invalid-setting").because(problem, "the default is used")
        };
        let ReadFormat { format, unknown } = match LogFormat::read(text, self.escape) {
            Ok(read) => read,
            Err(error) => return Some(invalid(error)),
        };
        if choice == LogFormatChoice::Flag {
            let problem = format!("{key}: the flag --access-log has chosen json or off");
            return Some(found(Severity::Note, "setting").because(problem, "it has no effect"));
        }
        settings.log_format = Some(Arc::new(format));
        (!unknown.is_empty()).then(|| {
            let names: Vec<_> = unknown.iter().map(|name| format!("${name}")).collect();
            let written = match self.escape {
                Escape::Nginx => "\"-\" is written in place of each",
                Escape::Json => "nothing is written in place of each",
            };
            let problem = format!("{key}: these variables are not known: {}", names.join(", "));
            found(Severity::Warning, "unsupported-setting").because(problem, written)
        })
    }
}
