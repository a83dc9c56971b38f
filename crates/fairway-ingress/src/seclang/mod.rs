//! Rules of a web application firewall in ModSecurity's language (SecLang), as `modsecurity-snippet` has them.
//!
//! A text is cut into lines and words ([`lines`]), and each directive is read by its name ([`directives`]), a rule with its variables,
//! operator ([`rule`]) and actions ([`actions`]). What is not understood, and what reaches the file system, the network, processes or
//! other Ingresses, is a [`Problem`] with its line, and then the text as a whole is refused. What is understood is written anew, one
//! directive a line: no line of the text reaches `fairway-waf` as it was written.

mod actions;
mod directives;
mod lines;
mod problem;
mod rule;
mod text;

pub use problem::Problem;
pub use text::{CORE_RULE_SET, Engine, MAX_RULES, MAX_TEXT, Part, RuleText};

impl RuleText {
    /// Reads the text of an annotation or of a key, which nginx would have between single quotes.
    ///
    /// # Errors
    /// The first thing that is not understood or not allowed.
    pub fn read(text: &str) -> Result<Self, Problem> {
        if text.len() > MAX_TEXT {
            let reason = format!("the text has {} bytes, and {MAX_TEXT} are allowed", text.len());
            return Err(Problem::new(1, "", reason));
        }
        directives::read(&lines::lines(&lines::unquoted(text))?)
    }

    /// Rules of an Ingress in front of those of all (`msc_rules_merge`): of settings its own count.
    ///
    /// # Errors
    /// The id of a rule that both have.
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
