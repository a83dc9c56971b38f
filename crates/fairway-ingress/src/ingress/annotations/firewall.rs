//! Web application firewall: `enable-modsecurity`, `enable-owasp-core-rules`, `modsecurity-*`. The firewall is
//! `fairway-waf`, configured with `--waf`; without it, paths that ask for it return 503.

use fairway_model::{FixedResponseReason, Template, variables};
use fairway_objects::annotations::text::parse_bool;
use fairway_objects::backend::BackendPurpose;
use fairway_objects::diagnostic::{Diagnostic, Severity};
use fairway_objects::options::UnsupportedProtection;

use crate::ingress::annotations::family::{Family, KnownAnnotation, differs};
use crate::ingress::annotations::snippets;
use crate::ingress::closed::{self, Closed};
use crate::ingress::context::Context;
use crate::ingress::contributions::Contributions;
use crate::ingress::firewall::{self, IngressRules};
use crate::ingress::reader::Reader;
use crate::seclang::RuleText;

/// The annotations of the web application firewall.
pub(crate) const FAMILY: Family = Family::new(ANNOTATIONS, read);

const ENABLE: &str = "enable-modsecurity";
const CORE_RULES: &str = "enable-owasp-core-rules";
const SNIPPET: &str = "modsecurity-snippet";
const TRANSACTION: &str = "modsecurity-transaction-id";

const ANNOTATIONS: &[KnownAnnotation] = &[
    differs(ENABLE, "Coraza instead of ModSecurity; needs [`--waf`](waf.md), else 503"),
    differs(CORE_RULES, "Core Rule Set 4; needs [`--waf`](waf.md), else 503"),
    differs(
        SNIPPET,
        "needs [`--waf`](waf.md); only [these directives](waf.md#rules-of-your-own); other lines give 503",
    ),
    differs(TRANSACTION, "default `$request_id`; only variables that headers support"),
];

fn read(
    reader: &mut Reader<'_>,
    context: &Context<'_>,
    contributions: &mut Contributions,
) -> Result<(), Closed> {
    let Some(firewall) = &context.inputs.options.firewall else {
        return close_without_firewall(reader, context);
    };
    let defaults = &context.defaults.firewall;
    let enabled = protective_switch(reader, ENABLE)?;
    let core_rule_set = protective_switch(reader, CORE_RULES)? == Some(true);
    if !enabled.unwrap_or(defaults.enabled) {
        if enabled.is_none() {
            report_without_effect(reader, core_rule_set);
        }
        return Ok(());
    }
    let snippet = rules_snippet(reader, context)?;
    let transaction = transaction_id(reader);
    let rules = IngressRules { snippet, core_rule_set }.with(defaults).map_err(|id| {
        let problem = format!("rule {id} is in {SNIPPET} of the settings ConfigMap, too");
        Closed::invalid(reader, SNIPPET, problem)
    })?;
    if let Some((extension, backend)) =
        firewall::extension(firewall, "Ingress", reader.key, &rules, transaction)
    {
        let origin = if enabled.is_some() { reader.at(ENABLE) } else { reader.field_origin("") };
        contributions.added.name_backend(backend, origin, BackendPurpose::Firewall);
        contributions.added.add(firewall::phases(extension));
    }
    Ok(())
}

/// Closes the paths of an Ingress that asks for a firewall although none is configured.
fn close_without_firewall(reader: &mut Reader<'_>, context: &Context<'_>) -> Result<(), Closed> {
    let requested = [ENABLE, CORE_RULES, SNIPPET].into_iter().filter(|name| {
        reader.value(name).is_some_and(|value| !value.is_empty() && parse_bool(value) != Some(false))
    });
    let mut outcome = Ok(());
    for name in requested.collect::<Vec<_>>() {
        let (severity, consequence) = match context.inputs.options.hosts.unsupported_protection {
            UnsupportedProtection::Ignored => {
                (Severity::Warning, "the Ingress is served without it, as the flag says")
            }
            UnsupportedProtection::Closed => {
                outcome = Err(Closed(FixedResponseReason::ProtectionUnavailable));
                (Severity::Error, closed::CLOSED_CONSEQUENCE)
            }
        };
        let diagnostic = Diagnostic::new(severity, "unsupported-protection", reader.at(name));
        reader.report(diagnostic.because(format!("{name}: {}", firewall::NO_FIREWALL), consequence));
    }
    if reader.value(TRANSACTION).is_some_and(|value| !value.is_empty()) {
        let diagnostic = Diagnostic::new(Severity::Warning, "unsupported-annotation", reader.at(TRANSACTION));
        let problem = format!("{TRANSACTION}: no web application firewall is configured; set --waf");
        reader.report(diagnostic.because(problem, "the Ingress is served without it"));
    }
    outcome
}

/// A protective switch: anything but true or false closes the paths.
fn protective_switch(reader: &mut Reader<'_>, name: &str) -> Result<Option<bool>, Closed> {
    let Some(value) = reader.value(name).filter(|value| !value.is_empty()) else { return Ok(None) };
    match parse_bool(value) {
        Some(on) => Ok(Some(on)),
        None => Err(Closed::invalid(reader, name, format!("\"{value}\" is neither true nor false"))),
    }
}

/// Reports annotations that have no effect without `enable-modsecurity`, as in ingress-nginx.
fn report_without_effect(reader: &mut Reader<'_>, core_rule_set: bool) {
    let has = |name| reader.value(name).is_some_and(|value| !value.is_empty());
    let ignored = [(CORE_RULES, core_rule_set), (SNIPPET, has(SNIPPET)), (TRANSACTION, has(TRANSACTION))];
    for (name, _) in ignored.into_iter().filter(|(_, is_there)| *is_there) {
        reader.invalid(name, format!("there is no {ENABLE}"), "it has no effect, as in ingress-nginx");
    }
}

/// The rules of the Ingress.
fn rules_snippet(reader: &mut Reader<'_>, context: &Context<'_>) -> Result<Option<RuleText>, Closed> {
    let Some(text) = snippets::text(reader, SNIPPET) else { return Ok(None) };
    let rules = snippets::check_allowed(context, SNIPPET)
        .and_then(|()| RuleText::read(text).map_err(|problem| format!("{SNIPPET}, {problem}")));
    match rules {
        Ok(rules) => Ok(Some(rules)),
        Err(problem) => snippets::report_unreadable(reader, context, SNIPPET, problem).map(|()| None),
    }
}

/// The transaction id in the audit log.
fn transaction_id(reader: &mut Reader<'_>) -> Template {
    let Some(value) = reader.value(TRANSACTION).filter(|value| !value.is_empty()) else {
        return firewall::request_id();
    };
    let is_plain = value.chars().all(|c| c.is_ascii_alphanumeric() || "-_${}".contains(c));
    let template =
        variables::header(value).ok().filter(|template| is_plain && template.geo_fields().next().is_none());
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
