//! The parsed content of a text of rules.

use std::collections::{BTreeMap, BTreeSet};

/// Maximum length of a text, in bytes. It is sent with every request that the firewall sees.
pub const MAX_TEXT: usize = 32 * 1024;

/// ingress-nginx's file that loads the Core Rule Set; `fairway-waf` loads its own instead.
pub const CORE_RULE_SET: &str = "/etc/nginx/owasp-modsecurity-crs/nginx-modsecurity.conf";

/// Maximum number of rules.
pub const MAX_RULES: usize = 1000;

/// The parsed content of a text of rules.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RuleText {
    /// `SecRuleEngine`; the last one counts.
    pub engine: Option<Engine>,
    /// Whether it includes the recommended configuration (`modsecurity.conf`).
    pub recommended: bool,
    /// Value directives by name, with the value as sent to the firewall; the last of each counts.
    pub settings: BTreeMap<&'static str, String>,
    /// Rules and the position of the Core Rule Set, in order.
    pub parts: Vec<RulePart>,
    /// Changes to other rules. ModSecurity applies them regardless of position, so the firewall gets them last.
    pub exceptions: Vec<String>,
    /// The ids of its rules.
    pub ids: BTreeSet<u32>,
}

/// A part of a [`RuleText`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RulePart {
    /// A directive on one line.
    Directive(String),
    /// Loads the Core Rule Set here.
    CoreRuleSet,
}

/// The firewall's reaction to findings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Engine {
    /// Refuses requests.
    On,
    /// Only logs.
    DetectionOnly,
    /// Inspects nothing.
    Off,
}

impl RuleText {
    /// Appends the Core Rule Set, unless it is included already.
    pub fn add_core_rule_set(&mut self) {
        if !self.has_core_rule_set() {
            self.parts.push(RulePart::CoreRuleSet);
        }
    }

    /// Puts the recommended configuration before everything else.
    pub fn add_recommended(&mut self) {
        self.recommended = true;
        self.engine = self.engine.or(Some(Engine::DetectionOnly));
    }

    /// Whether the Core Rule Set is loaded.
    #[must_use]
    pub fn has_core_rule_set(&self) -> bool {
        self.parts.contains(&RulePart::CoreRuleSet)
    }
}
