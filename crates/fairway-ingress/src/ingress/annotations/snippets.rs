//! nginx configuration: `configuration-snippet` and `server-snippet`. The text is translated by `fairway-snippet`;
//! any line that it does not support closes the paths, because it might restrict access.

use std::sync::Arc;

use fairway_model::FixedResponseReason;
use fairway_objects::diagnostic::{Diagnostic, Severity};
use fairway_objects::options::UnsupportedProtection;
use fairway_snippet::{
    AuthSnippet, Directive, Problem, auth_snippet, host_snippet, parse_directives, path_snippet,
};

use crate::ingress::annotations::family::{Family, KnownAnnotation, differs, missing_feature};
use crate::ingress::closed::{self, Closed};
use crate::ingress::context::Context;
use crate::ingress::contributions::{Contributions, PathSnippetEffects, ServerSnippet};
use crate::ingress::reader::Reader;
use crate::ingress::snippets::conflicts;

/// The family. It runs last, because snippets must be compatible with the values of all others.
pub(crate) const FAMILY: Family = Family::new(ANNOTATIONS, |reader, context, contributions| {
    let of_host = server_snippet(reader, context, contributions);
    configuration_snippet(reader, context, contributions).and(of_host)
});

const CONFIGURATION: &str = "configuration-snippet";
const SERVER: &str = "server-snippet";
const AUTH: &str = "auth-snippet";

const ANNOTATIONS: &[KnownAnnotation] = &[
    differs(CONFIGURATION, "[some directives](#snippets); other lines give 503"),
    differs(SERVER, "[some directives](#snippets); other lines give 503"),
    missing_feature("stream-snippet", "it is nginx configuration, of which HTTP is read only", &[]),
];

/// The text with its original line breaks.
pub(super) fn text<'a>(reader: &Reader<'a>, name: &str) -> Option<&'a str> {
    let found = reader.untrimmed().find(|(known, _)| *known == name);
    found.map(|(_, value)| value).filter(|value| !value.trim().is_empty())
}

/// The directives, if the operator allows snippets.
fn read_directives(context: &Context<'_>, name: &str, snippet_text: &str) -> Result<Vec<Directive>, String> {
    check_allowed(context, name)?;
    parse_directives(name, snippet_text).map_err(|problem| format_problem(name, &problem))
}

/// Checks that the operator allows snippets; the error says how to allow them.
pub(super) fn check_allowed(context: &Context<'_>, name: &str) -> Result<(), String> {
    if context.defaults.snippets.allowed {
        return Ok(());
    }
    Err(match context.inputs.options.configmap {
        Some(_) => format!("{name} acts only if allow-snippet-annotations in the settings ConfigMap is true"),
        None => format!(
            "{name} acts only if a settings ConfigMap, which --configmap names, has allow-snippet-annotations: \"true\""
        ),
    })
}

fn format_problem(name: &str, problem: &Problem) -> String {
    format!("{name}, {problem}")
}

fn configuration_snippet(
    reader: &mut Reader<'_>,
    context: &Context<'_>,
    contributions: &mut Contributions,
) -> Result<(), Closed> {
    let of_settings = &context.defaults.snippets.location;
    let own_text = text(reader, CONFIGURATION);
    if own_text.is_none() && of_settings.is_empty() {
        return Ok(());
    }
    let name = if own_text.is_some() { CONFIGURATION } else { "location-snippet" };
    let parsed = own_text.map_or(Ok(Vec::new()), |text| read_directives(context, CONFIGURATION, text));
    let snippet = parsed.and_then(|mut parsed| {
        parsed.extend(of_settings.iter().cloned());
        let maps = &context.defaults.snippets.http.maps;
        let snippet = path_snippet(&parsed, maps).map_err(|problem| format_problem(name, &problem))?;
        match conflicts::conflict_with_annotations(&snippet, reader, context.defaults, contributions) {
            Some(conflict) => Err(format!("{name} {conflict}")),
            None => Ok(snippet),
        }
    });
    match snippet {
        Ok(mut snippet) => {
            contributions.snippet = Some(Arc::new(PathSnippetEffects::from_snippet(&snippet)));
            contributions.added.add(std::mem::take(&mut snippet.phases));
            Ok(())
        }
        Err(problem) => report_unreadable(reader, context, CONFIGURATION, problem),
    }
}

fn server_snippet(
    reader: &mut Reader<'_>,
    context: &Context<'_>,
    contributions: &mut Contributions,
) -> Result<(), Closed> {
    let Some(text) = text(reader, SERVER) else { return Ok(()) };
    let snippets = &context.defaults.snippets;
    let snippet = read_directives(context, SERVER, text).and_then(|parsed| {
        host_snippet(&parsed, &snippets.server, &snippets.http)
            .map_err(|problem| format_problem(SERVER, &problem))
    });
    match snippet {
        Ok(snippet) => {
            contributions.host.snippet = Some(ServerSnippet::Acts(Arc::new(snippet)));
            Ok(())
        }
        Err(problem) => {
            let outcome = report_unreadable(reader, context, SERVER, problem);
            // nginx would drop it if it is not allowed, so it restricts no other paths of the host.
            if outcome.is_err() && snippets.allowed {
                contributions.host.snippet = Some(ServerSnippet::Refused);
            }
            outcome
        }
    }
}

/// The directives of `auth-snippet` for the auth request.
pub(super) fn read_auth_snippet(
    reader: &mut Reader<'_>,
    context: &Context<'_>,
) -> Result<Option<AuthSnippet>, Closed> {
    let Some(text) = text(reader, AUTH) else { return Ok(None) };
    let maps = &context.defaults.snippets.http.maps;
    let snippet = read_directives(context, AUTH, text)
        .and_then(|parsed| auth_snippet(&parsed, maps).map_err(|problem| format_problem(AUTH, &problem)))
        .and_then(|snippet| match conflicts::auth_snippet_conflict(&snippet, context.defaults) {
            Some(conflict) => Err(format!("{AUTH} {conflict}")),
            None => Ok(snippet),
        });
    match snippet {
        Ok(snippet) => Ok(Some(snippet)),
        Err(problem) => report_unreadable(reader, context, AUTH, problem).map(|()| None),
    }
}

/// Reports an unsupported snippet. Closes the paths, unless the operator ignores unsupported protection.
pub(super) fn report_unreadable(
    reader: &mut Reader<'_>,
    context: &Context<'_>,
    name: &str,
    problem: String,
) -> Result<(), Closed> {
    let (severity, consequence, outcome) = match context.inputs.options.hosts.unsupported_protection {
        UnsupportedProtection::Ignored => {
            (Severity::Warning, "the Ingress is served without it, as the flag says", Ok(()))
        }
        UnsupportedProtection::Closed => (
            Severity::Error,
            closed::CLOSED_CONSEQUENCE,
            Err(Closed(FixedResponseReason::ProtectionUnavailable)),
        ),
    };
    let found = Diagnostic::new(severity, "unsupported-protection", reader.at(name));
    reader.report(found.because(problem, consequence));
    outcome
}
