//! Pieces of nginx configuration: `configuration-snippet` and `server-snippet`. Their text is read into values (`fairway-snippet`); one
//! that is not understood in every line closes the paths, since any of them may keep somebody out.

use std::sync::Arc;

use fairway_model::AnswerReason;
use fairway_objects::diagnostic::{Diagnostic, Severity};
use fairway_objects::options::UnsupportedProtection;
use fairway_snippet::{
    Directive, Problem, QuestionSnippet, directives, host_snippet, path_snippet, question_snippet,
};

use crate::ingress::annotations::family::{Family, Known, differs, offers};
use crate::ingress::closed::{self, Closed};
use crate::ingress::context::Context;
use crate::ingress::contributions::{Contributions, ServerSnippet, SnippetOfPath};
use crate::ingress::reader::Reader;
use crate::ingress::snippets::conflicts;

/// The family. It is read behind all others, whose values it must agree with.
pub(crate) const FAMILY: Family = Family::new(ANNOTATIONS, |reader, context, contributions| {
    let of_host = server_snippet(reader, context, contributions);
    configuration_snippet(reader, context, contributions).and(of_host)
});

const CONFIGURATION: &str = "configuration-snippet";
const SERVER: &str = "server-snippet";
const AUTH: &str = "auth-snippet";

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
pub(super) fn text<'a>(reader: &Reader<'a>, name: &str) -> Option<&'a str> {
    let found = reader.untrimmed().find(|(known, _)| *known == name);
    found.map(|(_, value)| value).filter(|value| !value.trim().is_empty())
}

/// The directives, where the operator lets snippets act.
fn read(context: &Context<'_>, name: &str, text: &str) -> Result<Vec<Directive>, String> {
    may_act(context, name)?;
    directives(name, text).map_err(|problem| said(name, &problem))
}

/// Whether the operator lets snippets act; else what it takes.
pub(super) fn may_act(context: &Context<'_>, name: &str) -> Result<(), String> {
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

fn said(name: &str, problem: &Problem) -> String {
    format!("{name}, {problem}")
}

fn configuration_snippet(
    reader: &mut Reader<'_>,
    context: &Context<'_>,
    contributions: &mut Contributions,
) -> Result<(), Closed> {
    let of_settings = &context.defaults.snippets.location;
    let own = text(reader, CONFIGURATION);
    if own.is_none() && of_settings.is_empty() {
        return Ok(());
    }
    let name = if own.is_some() { CONFIGURATION } else { "location-snippet" };
    let parsed = own.map_or(Ok(Vec::new()), |text| read(context, CONFIGURATION, text));
    let snippet = parsed.and_then(|mut parsed| {
        parsed.extend(of_settings.iter().cloned());
        let maps = &context.defaults.snippets.http.maps;
        let snippet = path_snippet(&parsed, maps).map_err(|problem| said(name, &problem))?;
        match conflicts::beside_annotations(&snippet, reader, context.defaults, contributions) {
            Some(conflict) => Err(format!("{name} {conflict}")),
            None => Ok(snippet),
        }
    });
    match snippet {
        Ok(mut snippet) => {
            contributions.snippet = Some(Arc::new(SnippetOfPath::of(&snippet)));
            contributions.added.add(std::mem::take(&mut snippet.phases));
            Ok(())
        }
        Err(problem) => closed(reader, context, CONFIGURATION, problem),
    }
}

fn server_snippet(
    reader: &mut Reader<'_>,
    context: &Context<'_>,
    contributions: &mut Contributions,
) -> Result<(), Closed> {
    let Some(text) = text(reader, SERVER) else { return Ok(()) };
    let snippets = &context.defaults.snippets;
    let snippet = read(context, SERVER, text).and_then(|parsed| {
        host_snippet(&parsed, &snippets.server, &snippets.http).map_err(|problem| said(SERVER, &problem))
    });
    match snippet {
        Ok(snippet) => {
            contributions.host.snippet = Some(ServerSnippet::Acts(Arc::new(snippet)));
            Ok(())
        }
        Err(problem) => {
            let outcome = closed(reader, context, SERVER, problem);
            // nginx would drop it where it is not allowed, so that it keeps nobody off other paths of the host.
            if outcome.is_err() && snippets.allowed {
                contributions.host.snippet = Some(ServerSnippet::Refused);
            }
            outcome
        }
    }
}

/// What `auth-snippet` says to the service that is asked.
pub(super) fn question(
    reader: &mut Reader<'_>,
    context: &Context<'_>,
) -> Result<Option<QuestionSnippet>, Closed> {
    let Some(text) = text(reader, AUTH) else { return Ok(None) };
    let maps = &context.defaults.snippets.http.maps;
    let snippet = read(context, AUTH, text)
        .and_then(|parsed| question_snippet(&parsed, maps).map_err(|problem| said(AUTH, &problem)))
        .and_then(|snippet| match conflicts::of_question(&snippet, context.defaults) {
            Some(conflict) => Err(format!("{AUTH} {conflict}")),
            None => Ok(snippet),
        });
    match snippet {
        Ok(snippet) => Ok(Some(snippet)),
        Err(problem) => closed(reader, context, AUTH, problem).map(|()| None),
    }
}

/// Says what is not understood. The paths are closed, unless the operator has protection ignored.
pub(super) fn closed(
    reader: &mut Reader<'_>,
    context: &Context<'_>,
    name: &str,
    problem: String,
) -> Result<(), Closed> {
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
