//! The web application firewall: `enable-modsecurity`, `enable-owasp-core-rules`, `modsecurity-*`. It is `fairway-waf`, which the operator
//! names by `--waf`; paths that ask for it answer 503 where there is none.

use fairway_model::{AnswerReason, Template, variables};
use fairway_objects::annotations::text::switch;
use fairway_objects::backend::Purpose;
use fairway_objects::diagnostic::{Diagnostic, Severity};
use fairway_objects::options::UnsupportedProtection;

use crate::ingress::annotations::family::{Family, Known, differs};
use crate::ingress::annotations::snippets;
use crate::ingress::closed::{self, Closed};
use crate::ingress::context::Context;
use crate::ingress::contributions::Contributions;
use crate::ingress::firewall::{self, OwnRules};
use crate::ingress::reader::Reader;
use crate::seclang::RuleText;

/// The family.
pub(crate) const FAMILY: Family = Family::new(ANNOTATIONS, read);

const ENABLE: &str = "enable-modsecurity";
const CORE_RULES: &str = "enable-owasp-core-rules";
const SNIPPET: &str = "modsecurity-snippet";
const TRANSACTION: &str = "modsecurity-transaction-id";

const ANNOTATIONS: &[Known] = &[
    differs(
        ENABLE,
        "needs [`--waf`](waf.md), which runs Coraza in place of ModSecurity; without it the paths answer 503",
    ),
    differs(
        CORE_RULES,
        "needs [`--waf`](waf.md), which has the Core Rule Set 4; without it the paths answer 503",
    ),
    differs(
        SNIPPET,
        "needs [`--waf`](waf.md); the directives that [waf.md](waf.md#rules-of-your-own) lists work, and with any other line the paths answer 503",
    ),
    differs(TRANSACTION, "unset, it is `$request_id`; other variables than those of headers are not known"),
];

fn read(
    reader: &mut Reader<'_>,
    context: &Context<'_>,
    contributions: &mut Contributions,
) -> Result<(), Closed> {
    let Some(named) = &context.inputs.options.firewall else { return without(reader, context) };
    let of_all = &context.defaults.firewall;
    let enabled = own_switch(reader, ENABLE)?;
    let core_rule_set = own_switch(reader, CORE_RULES)? == Some(true);
    if !enabled.unwrap_or(of_all.enabled) {
        if enabled.is_none() {
            report_idle(reader, core_rule_set);
        }
        return Ok(());
    }
    let snippet = snippet(reader, context)?;
    let transaction = transaction(reader);
    let rules = OwnRules { snippet, core_rule_set }.with(of_all).map_err(|id| {
        let problem = format!("rule {id} is in {SNIPPET} of the settings ConfigMap, too");
        Closed::invalid(reader, SNIPPET, problem)
    })?;
    if let Some((extension, backend)) = firewall::extension(named, "Ingress", reader.key, &rules, transaction)
    {
        let origin = if enabled.is_some() { reader.at(ENABLE) } else { reader.field("") };
        contributions.added.name_backend(backend, origin, Purpose::Firewall);
        contributions.added.add(firewall::phases(extension));
    }
    Ok(())
}

/// Closes what asks for a firewall where there is none.
fn without(reader: &mut Reader<'_>, context: &Context<'_>) -> Result<(), Closed> {
    let asked = [ENABLE, CORE_RULES, SNIPPET].into_iter().filter(|name| {
        reader.value(name).is_some_and(|value| !value.is_empty() && switch(value) != Some(false))
    });
    let mut outcome = Ok(());
    for name in asked.collect::<Vec<_>>() {
        let (severity, consequence) = match context.inputs.options.hosts.unsupported_protection {
            UnsupportedProtection::Ignored => {
                (Severity::Warning, "the Ingress is served without it, as the flag says")
            }
            UnsupportedProtection::Closed => {
                outcome = Err(Closed(AnswerReason::ProtectionUnavailable));
                (Severity::Error, closed::CONSEQUENCE)
            }
        };
        let found = Diagnostic::new(severity, "unsupported-protection", reader.at(name));
        reader.report(found.because(format!("{name}: {}", firewall::NONE), consequence));
    }
    if reader.value(TRANSACTION).is_some_and(|value| !value.is_empty()) {
        let found = Diagnostic::new(Severity::Warning, "unsupported-annotation", reader.at(TRANSACTION));
        let problem = format!("{TRANSACTION}: there is no web application firewall, which --waf names");
        reader.report(found.because(problem, "the Ingress is served without it"));
    }
    outcome
}

/// A switch that protects: what is neither true nor false closes the paths.
fn own_switch(reader: &mut Reader<'_>, name: &str) -> Result<Option<bool>, Closed> {
    let Some(value) = reader.value(name).filter(|value| !value.is_empty()) else { return Ok(None) };
    match switch(value) {
        Some(on) => Ok(Some(on)),
        None => Err(Closed::invalid(reader, name, format!("\"{value}\" is neither true nor false"))),
    }
}

/// Says what has no effect without `enable-modsecurity`, as in ingress-nginx.
fn report_idle(reader: &mut Reader<'_>, core_rule_set: bool) {
    let has = |name| reader.value(name).is_some_and(|value| !value.is_empty());
    let idle = [(CORE_RULES, core_rule_set), (SNIPPET, has(SNIPPET)), (TRANSACTION, has(TRANSACTION))];
    for (name, _) in idle.into_iter().filter(|(_, is_there)| *is_there) {
        reader.invalid(name, format!("there is no {ENABLE}"), "it has no effect, as in ingress-nginx");
    }
}

/// The rules of the Ingress, in every line.
fn snippet(reader: &mut Reader<'_>, context: &Context<'_>) -> Result<Option<RuleText>, Closed> {
    let Some(text) = snippets::text(reader, SNIPPET) else { return Ok(None) };
    let read = snippets::may_act(context, SNIPPET)
        .and_then(|()| RuleText::read(text).map_err(|problem| format!("{SNIPPET}, {problem}")));
    match read {
        Ok(rules) => Ok(Some(rules)),
        Err(problem) => snippets::closed(reader, context, SNIPPET, problem).map(|()| None),
    }
}

/// What names transactions in the audit log.
fn transaction(reader: &mut Reader<'_>) -> Template {
    let Some(value) = reader.value(TRANSACTION).filter(|value| !value.is_empty()) else {
        return firewall::request_id();
    };
    let is_plain = value.chars().all(|c| c.is_ascii_alphanumeric() || "-_${}".contains(c));
    let template = variables::header(value).ok().filter(|of| is_plain && of.geo_fields().next().is_none());
    match template {
        Some(template) => template,
        None => {
            let problem =
                format!("\"{value}\" is not made of letters, digits, - and _, and variables that are known");
            reader.invalid(TRANSACTION, problem, "$request_id names transactions");
            firewall::request_id()
        }
    }
}
