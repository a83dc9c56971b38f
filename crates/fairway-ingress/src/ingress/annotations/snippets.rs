//! Pieces of nginx configuration: `configuration-snippet` and `server-snippet`. Their text is read into values (`fairway-snippet`); one
//! that is not understood in every line closes the paths, since any of them may keep somebody out.

use std::sync::Arc;

use fairway_model::{AnswerReason, Content, Guard, Phases};
use fairway_objects::diagnostic::{Diagnostic, Severity};
use fairway_objects::options::UnsupportedProtection;
use fairway_snippet::{Directive, PathSnippet, Problem, directives, host_snippet, path_snippet};

use crate::ingress::annotations::family::{Family, Known, differs, offers};
use crate::ingress::closed::{self, Closed};
use crate::ingress::context::Context;
use crate::ingress::contributions::{Contributions, SnippetOfPath, Turn};
use crate::ingress::reader::Reader;

/// The family. It is read behind all others, whose values it must agree with.
pub(crate) const FAMILY: Family = Family::new(ANNOTATIONS, |reader, context, contributions| {
    let of_host = server_snippet(reader, context, contributions);
    configuration_snippet(reader, context, contributions).and(of_host)
});

const CONFIGURATION: &str = "configuration-snippet";
const SERVER: &str = "server-snippet";

const ANNOTATIONS: &[Known] = &[
    differs(
        CONFIGURATION,
        "the directives that [snippets](#snippets) lists work; with any other line the paths answer 503",
    ),
    differs(
        SERVER,
        "the directives that [snippets](#snippets) lists work; with any other line the paths answer 503",
    ),
    offers("stream-snippet", "it is nginx configuration, of which HTTP is read only", &[]),
];

/// The text with its lines as they are written.
fn text<'a>(reader: &Reader<'a>, name: &str) -> Option<&'a str> {
    let found = reader.untrimmed().find(|(known, _)| *known == name);
    found.map(|(_, value)| value).filter(|value| !value.trim().is_empty())
}

/// The directives, where the operator lets snippets act.
fn read(
    reader: &Reader<'_>,
    context: &Context<'_>,
    name: &str,
    text: &str,
) -> Result<Vec<Directive>, String> {
    if !context.defaults.snippets.allowed {
        return Err(format!(
            "{name} is left out unless allow-snippet-annotations in the settings ConfigMap is true"
        ));
    }
    _ = reader;
    directives(name, text).map_err(|problem| said(name, &problem))
}

fn said(name: &str, problem: &Problem) -> String {
    format!("{name}, {problem}")
}

fn configuration_snippet(
    reader: &mut Reader<'_>,
    context: &Context<'_>,
    contributions: &mut Contributions,
) -> Result<(), Closed> {
    let global = &context.defaults.snippets.location;
    let own = text(reader, CONFIGURATION);
    if own.is_none() && global.is_empty() {
        contributions.snippet.hides_adds_of_host = asks_another_service(contributions);
        return Ok(());
    }
    let parsed = match own {
        Some(text) => read(reader, context, CONFIGURATION, text),
        None => Ok(Vec::new()),
    };
    let snippet = parsed.and_then(|mut parsed| {
        parsed.extend(global.iter().cloned());
        let maps = &context.defaults.snippets.http.maps;
        let snippet = path_snippet(&parsed, maps).map_err(|problem| said(CONFIGURATION, &problem))?;
        agreed(&snippet, reader, contributions)?;
        Ok(snippet)
    });
    match snippet {
        Ok(PathSnippet { mut phases, adds, has_access, .. }) => {
            contributions.snippet = SnippetOfPath {
                hides_adds_of_host: !adds.is_empty() || asks_another_service(contributions),
                hides_access_of_host: has_access,
                hides_hidden_of_host: !phases.answers.received.is_empty(),
                adds,
            };
            let unlogged = std::mem::take(&mut phases.unlogged);
            contributions.added.add(Phases { unlogged, ..phases });
            Ok(())
        }
        Err(problem) => closed(reader, context, CONFIGURATION, problem),
    }
}

/// `auth-url` brings an `add_header` of ingress-nginx's own.
fn asks_another_service(contributions: &Contributions) -> bool {
    contributions.added.asks_another_service()
}

/// Whether what other annotations do leaves the snippet the meaning that it has by itself.
fn agreed(snippet: &PathSnippet, reader: &Reader<'_>, contributions: &Contributions) -> Result<(), String> {
    let added = &contributions.added;
    if snippet.has_conditions && added.has(Turn::Preflight) {
        return Err(format!(
            "{CONFIGURATION} has an if, behind which nginx forgets the headers of enable-cors"
        ));
    }
    if (snippet.rewrites || snippet.reads_path) && contributions.rewrite.target.is_some() {
        return Err(format!("{CONFIGURATION} rewrites or reads the path, and so does rewrite-target"));
    }
    if snippet.satisfy_any.is_some() && added.asks_who() {
        return Err(format!("{CONFIGURATION} has satisfy any; use the annotation satisfy"));
    }
    if snippet.has_access && contributions.check_source_ranges() {
        return Err(format!(
            "{CONFIGURATION} has allow or deny behind those of the source ranges; use these alone"
        ));
    }
    let is_relative = |guard: &Guard| match guard {
        Guard::Respond(respond) => {
            matches!(respond.content, Content::Location(_) | Content::Rewritten { .. })
        }
        _ => false,
    };
    if contributions.redirects.relative && snippet.phases.guards.iter().any(is_relative) {
        return Err(format!("{CONFIGURATION} redirects, which relative-redirects changes"));
    }
    let protocol = reader.value("backend-protocol").unwrap_or_default().to_ascii_uppercase();
    let is_other = protocol.starts_with("GRPC") || protocol == "FCGI";
    let sets = snippet.phases.forwarding.as_ref().is_some_and(|forwarding| !forwarding.chosen.is_empty());
    let proxied = sets || !snippet.phases.answers.received.is_empty();
    if is_other && proxied {
        return Err(format!("{CONFIGURATION} has proxy_* directives, which have no effect with {protocol}"));
    }
    Ok(())
}

fn server_snippet(
    reader: &mut Reader<'_>,
    context: &Context<'_>,
    contributions: &mut Contributions,
) -> Result<(), Closed> {
    let Some(text) = text(reader, SERVER) else { return Ok(()) };
    let snippets = &context.defaults.snippets;
    let snippet = read(reader, context, SERVER, text).and_then(|mut parsed| {
        parsed.extend(snippets.server.iter().cloned());
        host_snippet(&parsed, &snippets.http).map_err(|problem| said(SERVER, &problem))
    });
    match snippet {
        Ok(snippet) => {
            contributions.host.snippet = Some(Arc::new(snippet));
            Ok(())
        }
        Err(problem) => closed(reader, context, SERVER, problem),
    }
}

/// Says what is not understood. The paths are closed, unless the operator has protection ignored.
fn closed(reader: &mut Reader<'_>, context: &Context<'_>, name: &str, problem: String) -> Result<(), Closed> {
    let (severity, consequence, outcome) = match context.inputs.options.hosts.unsupported_protection {
        UnsupportedProtection::Ignored => {
            (Severity::Warning, "the Ingress is served without it, as the flag says", Ok(()))
        }
        UnsupportedProtection::Closed => {
            (Severity::Error, closed::CONSEQUENCE, Err(Closed(AnswerReason::ProtectionUnavailable)))
        }
    };
    let found = Diagnostic::new(severity, "unsupported-protection", reader.at(name));
    reader.report(found.because(problem, consequence));
    outcome
}
