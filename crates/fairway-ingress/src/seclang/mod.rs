//! Web application firewall rules in ModSecurity's language (SecLang), from `modsecurity-snippet`.
//!
//! A text is split into lines and words ([`lines`]), and each directive is read by its name ([`directives`]),
//! including the variables and operator ([`rule`]) and the actions ([`actions`]) of a rule. Anything unknown, or with
//! access to the file system, the network, processes or other Ingresses, is a [`Problem`] with its line and rejects
//! the whole text. The result is written anew, one directive per line: no line of the text reaches `fairway-waf` as
//! written.

mod actions;
mod directives;
mod lines;
mod problem;
mod rule;
mod text;

pub use problem::Problem;
pub use text::{CORE_RULE_SET, Engine, MAX_RULES, MAX_TEXT, RulePart, RuleText};

impl RuleText {
    /// Parses the text of an annotation or key, which nginx would have in single quotes.
    ///
    /// # Errors
    /// The first part that is unknown or refused.
    pub fn read(text: &str) -> Result<Self, Problem> {
        if text.len() > MAX_TEXT {
            let reason = format!("the text has {} bytes, and {MAX_TEXT} are allowed", text.len());
            return Err(Problem::new(1, "", reason));
        }
        directives::read(&lines::lines(&lines::unquoted(text))?)
    }

    /// Merges the rules of an Ingress with global ones (`msc_rules_merge`): its rules come first, and its settings
    /// take precedence.
    ///
    /// # Errors
    /// The id of a rule that both contain.
    pub fn before(self, of_all: Self) -> Result<Self, u32> {
        if let Some(id) = self.ids.intersection(&of_all.ids).next() {
            return Err(*id);
        }
        let mut merged = of_all;
        if self.recommended {
            merged.settings.retain(|name, _| !directives::SET_BY_RECOMMENDED.contains(name));
        }
        merged.engine = self.engine.or(merged.engine);
        merged.recommended |= self.recommended;
        merged.settings.extend(self.settings);
        merged.parts.splice(0..0, self.parts);
        merged.exceptions.splice(0..0, self.exceptions);
        merged.ids.extend(self.ids);
        Ok(merged)
    }
}

#[cfg(test)]
mod tests;
