//! What a text of rules says, once it is read.

use std::collections::{BTreeMap, BTreeSet};

/// The longest text, in bytes. Each request that the firewall sees has the text with it.
pub const MAX_TEXT: usize = 32 * 1024;

/// The file of ingress-nginx that loads the Core Rule Set; `fairway-waf` has one in its place.
pub const CORE_RULE_SET: &str = "/etc/nginx/owasp-modsecurity-crs/nginx-modsecurity.conf";

/// The most rules.
pub const MAX_RULES: usize = 1000;

/// What a text of rules says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RuleText {
    /// `SecRuleEngine`; the last one counts.
    pub engine: Option<Engine>,
    /// Whether it includes the recommended configuration (`modsecurity.conf`).
    pub recommended: bool,
    /// The directives that set a value, by their names, with that value as it is written to the firewall; the last of each counts.
    pub settings: BTreeMap<&'static str, String>,
    /// Rules and the place of the Core Rule Set, in their order.
    pub parts: Vec<Part>,
    /// Changes to other rules. ModSecurity applies them wherever they stand, so the firewall gets them last.
    pub exceptions: Vec<String>,
    /// The ids of its rules.
    pub ids: BTreeSet<u32>,
}

/// One part of a [`RuleText`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// A directive in one line.
    Directive(String),
    /// The Core Rule Set is loaded here.
    CoreRuleSet,
}

/// What the firewall does with what it finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Engine {
    /// It refuses requests.
    On,
    /// It only logs.
    DetectionOnly,
    /// It does not look.
    Off,
}

impl RuleText {
    /// Adds the Core Rule Set behind the rules that are there, unless they include it.
    pub fn add_core_rule_set(&mut self) {
        if !self.has_core_rule_set() {
            self.parts.push(Part::CoreRuleSet);
        }
    }

    /// Adds the recommended configuration in front of all that the text says.
    pub fn add_recommended(&mut self) {
        self.recommended = true;
        self.engine = self.engine.or(Some(Engine::DetectionOnly));
    }

    /// Whether the Core Rule Set is loaded.
    #[must_use]
    pub fn has_core_rule_set(&self) -> bool {
        self.parts.contains(&Part::CoreRuleSet)
    }
}
