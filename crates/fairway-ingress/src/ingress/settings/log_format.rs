//! Keys for the access log format (`log-format-*`).

use std::sync::Arc;

use fairway_model::{LogEscape, LogFormat, Origin, ParsedLogFormat, Settings};
use fairway_objects::annotations::text::parse_bool;
use fairway_objects::diagnostic::{Diagnostic, Severity};
use fairway_objects::options::LogFormatChoice;

use crate::ingress::settings::problem::KeyProblem;

/// The values as written.
#[derive(Debug, Default)]
pub(super) struct LogFormatKeys {
    /// With its key, which differs between the controllers.
    format: Option<(&'static str, String)>,
    escape: Option<(&'static str, LogEscape)>,
}

impl LogFormatKeys {
    /// Reads one key; `None` for any other.
    pub(super) fn read(&mut self, name: &str, value: &str) -> Option<Result<(), KeyProblem>> {
        const UNSAFE: KeyProblem = KeyProblem::Lost(
            "a client could write lines of its own into the log",
            "values are escaped as they are without the key",
        );
        let format = |key: &'static str| (!value.is_empty()).then(|| (key, value.to_owned()));
        let flag = || parse_bool(value).ok_or(KeyProblem::NotA("true or false"));
        let escape = |json: bool| if json { LogEscape::Json } else { LogEscape::Nginx };
        match name {
            "log-format-upstream" => self.format = format("log-format-upstream"),
            // Lines are joined.
            "log-format" => {
                self.format = format("log-format").map(|(key, text)| (key, text.replace('\n', " ")));
            }
            "log-format-escape-json" => match flag() {
                Ok(json) => self.escape = Some(("log-format-escape-json", escape(json))),
                Err(problem) => return Some(Err(problem)),
            },
            "log-format-escaping" => match value {
                "json" | "default" => self.escape = Some(("log-format-escaping", escape(value == "json"))),
                "none" => return Some(Err(UNSAFE)),
                _ => return Some(Err(KeyProblem::NotA("json or default"))),
            },
            "log-format-escape-none" => match flag() {
                Ok(true) => return Some(Err(UNSAFE)),
                Ok(false) => {}
                Err(problem) => return Some(Err(problem)),
            },
            _ => return None,
        }
        Some(Ok(()))
    }

    /// Puts the format into the settings; an unreadable one keeps the default. `at` gives the origin of a key.
    pub(super) fn apply(
        &self,
        choice: LogFormatChoice,
        settings: &mut Settings,
        at: impl Fn(&str) -> Origin,
    ) -> Option<Diagnostic> {
        let escape = self.escape.map(|(_, escape)| escape).unwrap_or_default();
        let (key, text) = match (&self.format, self.escape) {
            (Some((key, format)), _) => (*key, &**format),
            (None, Some((key, LogEscape::Json))) => (key, LogFormat::BUILT_IN),
            (None, _) => return None,
        };
        let found = |severity, code| Diagnostic::new(severity, code, at(key));
        let invalid = |error| {
            let problem = format!("{key}: {error}");
            found(Severity::Warning, "invalid-setting").because(problem, "the default is used")
        };
        let ParsedLogFormat { format, unknown } = match LogFormat::read(text, escape) {
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
            let written = match escape {
                LogEscape::Nginx => "\"-\" is written in place of each",
                LogEscape::Json => "nothing is written in place of each",
            };
            let problem = format!("{key}: these variables are not known: {}", names.join(", "));
            found(Severity::Warning, "unsupported-setting").because(problem, written)
        })
    }
}
