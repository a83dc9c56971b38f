//! Keys for the web application firewall: `enable-modsecurity`, `enable-owasp-modsecurity-crs` and
//! `modsecurity-snippet`.

use std::sync::Arc;

use fairway_model::{FixedResponseReason, Origin};
use fairway_objects::annotations::text::parse_bool;
use fairway_objects::diagnostic::{Diagnostic, Severity};
use fairway_objects::options::UnsupportedProtection;

use crate::ingress::closed::Closed;
use crate::ingress::defaults::{Defaults, FirewallDefaults};
use crate::ingress::settings::problem::KeyProblem;
use crate::seclang::RuleText;

const SNIPPET: &str = "modsecurity-snippet";

/// The values while keys are read.
#[derive(Default)]
pub(super) struct FirewallKeys {
    enabled: bool,
    core_rule_set: bool,
    snippet: String,
}

impl FirewallKeys {
    /// Reads a key; `None` for any other. `exists` says whether there is a firewall.
    pub(super) fn read(&mut self, name: &str, value: &str, exists: bool) -> Option<Result<(), KeyProblem>> {
        if !["enable-modsecurity", "enable-owasp-modsecurity-crs", SNIPPET].contains(&name) {
            return None;
        }
        let on = parse_bool(value);
        if value.is_empty() || on == Some(false) {
            return Some(Ok(()));
        }
        if !exists {
            return Some(Err(KeyProblem::NoFirewall));
        }
        match (name, on) {
            (SNIPPET, _) => value.clone_into(&mut self.snippet),
            (_, None) => return Some(Err(KeyProblem::Unreadable("the value is neither true nor false"))),
            ("enable-modsecurity", _) => self.enabled = true,
            _ => self.core_rule_set = true,
        }
        Some(Ok(()))
    }

    /// Puts the values into the defaults. `at` gives the origin of a key.
    pub(super) fn apply(
        &self,
        defaults: &mut Defaults,
        protection: UnsupportedProtection,
        at: impl Fn(&str) -> Origin,
    ) -> Option<Diagnostic> {
        let Self { enabled, core_rule_set, ref snippet } = *self;
        let rules = (enabled && !snippet.is_empty()).then(|| RuleText::read(snippet)).transpose();
        let (rules, problem) = match rules {
            Ok(rules) => (rules.map(Arc::new), None),
            Err(problem) => (None, Some(problem)),
        };
        defaults.firewall = FirewallDefaults { enabled, core_rule_set, rules };
        let (severity, consequence) = match protection {
            UnsupportedProtection::Ignored => {
                (Severity::Warning, "every Ingress is served without these rules, as the flag says")
            }
            UnsupportedProtection::Closed => (Severity::Error, "all paths of all Ingresses answer 503"),
        };
        let problem = problem?;
        if protection == UnsupportedProtection::Closed {
            defaults.closed = Some(Closed(FixedResponseReason::ProtectionUnavailable));
        }
        let found = Diagnostic::new(severity, "unsupported-protection", at(SNIPPET));
        Some(found.because(format!("{SNIPPET}, {problem}"), consequence))
    }
}
