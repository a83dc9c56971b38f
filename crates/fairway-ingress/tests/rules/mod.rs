//! Invariants for any text of rules, used by the property tests and the fuzz target. Panics on violations.

use fairway_ingress::seclang::{CORE_RULE_SET, MAX_TEXT, RulePart, RuleText};

/// Prefixes of directives that the firewall gets.
const DIRECTIVES: [&str; 6] =
    ["SecRule ", "SecAction ", "SecMarker ", "SecDefaultAction ", "SecRuleRemoveBy", "SecRuleUpdate"];

/// A text has a problem with a line of its own, or becomes single-line directives with the same meaning when parsed
/// again.
pub(crate) fn any_text(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    let read = match RuleText::read(&text) {
        Ok(read) => read,
        Err(problem) => {
            let lines = u32::try_from(text.split('\n').count()).unwrap_or(u32::MAX);
            assert!((1..=lines).contains(&problem.line), "{problem}");
            assert!(!problem.to_string().contains('\n'), "{problem}");
            return;
        }
    };
    let written: Vec<String> = (read.settings.iter().map(|(name, value)| format!("{name} {value}")))
        .chain(read.parts.iter().map(directive))
        .chain(read.exceptions.iter().inspect(|directive| check(directive)).cloned())
        .collect();
    let again = written.join("\n").replace('\\', "\\\\").replace('\'', "\\'").replace('"', "\\\"");
    if again.len() > MAX_TEXT {
        return;
    }
    let again = RuleText::read(&again).unwrap_or_else(|problem| panic!("{written:#?}\n{problem}"));
    assert_eq!(again, RuleText { engine: None, recommended: false, ..read });
}

fn directive(part: &RulePart) -> String {
    match part {
        RulePart::Directive(directive) => {
            check(directive);
            directive.clone()
        }
        RulePart::CoreRuleSet => format!("Include {CORE_RULE_SET}"),
    }
}

fn check(directive: &str) {
    assert!(DIRECTIVES.iter().any(|start| directive.starts_with(start)), "{directive}");
    assert!(!directive.contains(['\n', '\r', '\0']) && !directive.ends_with('\\'), "{directive}");
}
