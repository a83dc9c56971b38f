//! Why a snippet cannot keep its meaning next to annotations, settings and other paths: in nginx, one directive
//! replaces another, or sees a part of the request that an earlier step has changed. Each result completes a sentence
//! that starts with the snippet's name.

use std::collections::BTreeSet;
use std::sync::Arc;

use fairway_model::{Guard, ResponseContent};
use fairway_snippet::{AuthSnippet, HeaderUses, HostSnippet, PathSnippet, ReplacementScope};

use crate::ingress::contributions::{AddedPhases, Contributions, GuardStage, PathSnippetEffects};
use crate::ingress::defaults::Defaults;
use crate::ingress::layout::Layout;
use crate::ingress::location::Location;
use crate::ingress::reader::Reader;
use crate::ingress::served::ServedIngress;

/// Maximum number of conditions and text parts of a host's snippet, over all paths: each path has its own copy.
const MAX_PARTS: usize = 200_000;

/// Conflict with settings for all Ingresses.
fn conflict_with_settings(
    uses: &HeaderUses,
    says_who: bool,
    hides: bool,
    defaults: &Defaults,
) -> Option<String> {
    if says_who && defaults.snippets.believes_peers {
        return Some("names the client, and so do the settings".to_owned());
    }
    if uses.link && defaults.snippets.believes_peers {
        let why =
            "depends on $scheme, $server_port or the like, and the settings believe other proxies about them";
        return Some(why.to_owned());
    }
    if hides && !defaults.headers.hidden.is_empty() {
        return Some(
            "has proxy_hide_header, which replaces hide-headers of the settings in nginx".to_owned(),
        );
    }
    let named = defaults.headers.requests.iter().map(|field| field.name.to_ascii_lowercase());
    named
        .into_iter()
        .find(|name| uses.requests.contains(name) || uses.reads.contains(name))
        .map(|name| format!("has {name}, which proxy-set-headers of the settings sets, too"))
}

/// Conflict of a settings snippet, for paths that belong to no Ingress.
pub(crate) fn settings_snippet_conflict(
    path: &PathSnippet,
    host: &HostSnippet,
    defaults: &Defaults,
) -> Option<String> {
    let hides = !path.phases.answers.received.is_empty();
    let of_path = conflict_with_settings(&path.uses, path.phases.client.is_some(), hides, defaults);
    of_path.or_else(|| {
        conflict_with_settings(&host.uses, host.client.is_some(), !host.hidden_headers.is_empty(), defaults)
    })
}

/// Conflict of an auth snippet.
pub(crate) fn auth_snippet_conflict(question: &AuthSnippet, defaults: &Defaults) -> Option<String> {
    let uses = HeaderUses { link: question.depends_on_connection, ..HeaderUses::default() };
    conflict_with_settings(&uses, false, false, defaults)
}

/// Conflict of a path's snippet with the annotations of its Ingress.
pub(crate) fn conflict_with_annotations(
    snippet: &PathSnippet,
    reader: &Reader<'_>,
    defaults: &Defaults,
    contributions: &Contributions,
) -> Option<String> {
    let PathSnippet { uses, phases, .. } = snippet;
    let added = &contributions.added;
    let hides = !phases.answers.received.is_empty();
    conflict_with_settings(uses, phases.client.is_some(), hides, defaults)
        .or_else(|| conflict_with_phases(uses, added))
        .or_else(|| conflict_with_rewrites(snippet, contributions))
        .or_else(|| conflict_with_endpoints(snippet, reader, contributions))
        .or_else(|| conflict_with_responses(snippet, contributions))
        .or_else(|| {
            let why = if snippet.has_conditions && added.has(GuardStage::Preflight) {
                "has an if, behind which nginx forgets the headers of enable-cors"
            } else if snippet.replaces_adds == ReplacementScope::Sometimes && added.external_auth().is_some()
            {
                "has add_header in an if, which replaces the cookies of auth-url"
            } else if phases.client.is_some() && added.sets_client_address() {
                "names the client, and so does an annotation"
            } else if snippet.satisfy_any.is_some() && added.authenticates() {
                "has satisfy any; use the annotation satisfy"
            } else if snippet.has_access && contributions.satisfies_any && added.authenticates() {
                "has allow or deny, and satisfy is any; use the source ranges"
            } else if snippet.has_access && contributions.have_source_ranges() {
                "has allow or deny behind those of the source ranges; use these alone"
            } else {
                return None;
            };
            Some(why.to_owned())
        })
}

/// Conflict of any snippet with request and response changes of annotations.
fn conflict_with_phases(uses: &HeaderUses, added: &AddedPhases) -> Option<String> {
    let is_of_cors = |name: &String| name.starts_with("access-control-");
    if added.has(GuardStage::Preflight)
        && (uses.reads.contains("origin") || uses.responses.iter().any(is_of_cors))
    {
        return Some("has Origin or Access-Control-*, which enable-cors changes".to_owned());
    }
    if added.asks_for_password() && uses.reads.contains("authorization") {
        return Some("depends on Authorization, which auth-type takes away".to_owned());
    }
    if added.asks_for_password() && uses.inputs.contains("authorization") {
        return Some(
            "has more_*_input_headers of Authorization, by which nginx would ask for the password".to_owned(),
        );
    }
    if added.reads_key_from(&uses.reads) || added.reads_key_from(&uses.inputs) {
        return Some("has to do with the header of fairway.dev/api-key, which is taken away".to_owned());
    }
    let is_used = |name: &String| {
        uses.reads.contains(name) || uses.requests.contains(name) || uses.inputs.contains(name)
    };
    if let Some(name) = added.identity_header(is_used) {
        return Some(format!("has {name}, which fairway.dev/jwt or fairway.dev/api-key sets, too"));
    }
    if added.mirrors() && !uses.inputs.is_empty() {
        return Some("has more_*_input_headers, which nginx sends to mirror-target, too".to_owned());
    }
    if let Some(external) = added.external_auth() {
        if !uses.inputs.is_empty() {
            return Some(
                "has more_*_input_headers, which nginx sends to the service of auth-url, too".to_owned(),
            );
        }
        let copied = external.copied.iter().map(|name| name.to_ascii_lowercase());
        let copied =
            copied.into_iter().find(|name| uses.reads.contains(name) || uses.requests.contains(name));
        if let Some(name) = copied {
            return Some(format!("has {name}, which auth-response-headers sets, too"));
        }
    }
    let written = added.response_header_names().find(|name| uses.responses.contains(name));
    written.map(|name| format!("has {name}, which an annotation sets, too"))
}

fn conflict_with_rewrites(snippet: &PathSnippet, contributions: &Contributions) -> Option<String> {
    if snippet.breaks
        && (contributions.rewrite.target.is_some() || contributions.added.has(GuardStage::Redirect))
    {
        return Some(
            "has break, behind which nginx neither rewrites nor redirects for annotations".to_owned(),
        );
    }
    let target = contributions.rewrite.target.as_ref()?;
    if snippet.rewrites || snippet.uses.path {
        return Some("rewrites the path or depends on it, and so does rewrite-target".to_owned());
    }
    if snippet.uses.query && target.contains('?') {
        return Some("depends on the query, which rewrite-target changes".to_owned());
    }
    let has_prefix = contributions.rewrite.prefix.is_some();
    (has_prefix && snippet.uses.requests.contains("x-forwarded-prefix"))
        .then(|| "has X-Forwarded-Prefix, which x-forwarded-prefix sets, too".to_owned())
}

fn conflict_with_endpoints(
    snippet: &PathSnippet,
    reader: &Reader<'_>,
    contributions: &Contributions,
) -> Option<String> {
    let protocol = reader.value("backend-protocol").unwrap_or_default().to_ascii_uppercase();
    let is_other = protocol.starts_with("GRPC") || protocol == "FCGI";
    let sets = snippet.phases.forwarding.as_ref().is_some_and(|forwarding| !forwarding.chosen.is_empty());
    if is_other && (sets || !snippet.phases.answers.received.is_empty()) {
        return Some(format!("has proxy_* directives, which have no effect with {protocol}"));
    }
    let balance = &contributions.upstream.balance;
    if balance.hash.is_some() && !snippet.uses.requests.is_empty() {
        return Some("changes headers of requests, by which upstream-hash-by may choose".to_owned());
    }
    (balance.cookie.is_some() && snippet.uses.inputs.contains("cookie"))
        .then(|| "has more_*_input_headers of Cookie, by which affinity chooses".to_owned())
}

fn conflict_with_responses(snippet: &PathSnippet, contributions: &Contributions) -> Option<String> {
    let responds = || {
        snippet.phases.guards.iter().filter_map(|guard| match guard {
            Guard::Respond(respond) => Some(respond),
            _ => None,
        })
    };
    let is_redirect = |content: &ResponseContent| {
        matches!(
            content,
            ResponseContent::Location(_)
                | ResponseContent::UnescapedLocation(_)
                | ResponseContent::Rewritten { .. }
        )
    };
    if contributions.redirects.relative && responds().any(|respond| is_redirect(&respond.content)) {
        return Some("redirects, which relative-redirects changes".to_owned());
    }
    let signs_in = contributions.added.external_auth().is_some_and(|external| external.sign_in.is_some());
    if signs_in && responds().any(|respond| respond.status == 401) {
        return Some("returns 401, which auth-signin redirects".to_owned());
    }
    let statuses = &contributions.errors.statuses;
    let is_replaced = responds().any(|respond| statuses.contains(&respond.status));
    let replaces_headers = !statuses.is_empty() && !snippet.uses.responses.is_empty();
    (is_replaced || replaces_headers)
        .then(|| "has headers or statuses of responses that custom-http-errors replaces".to_owned())
}

/// Conflict of a host's snippet with its paths.
pub(crate) fn host_snippet_conflict(
    host: &HostSnippet,
    layout: &Layout,
    defaults: &Defaults,
) -> Option<String> {
    let uses = &host.uses;
    if let Some(why) =
        conflict_with_settings(uses, host.client.is_some(), !host.hidden_headers.is_empty(), defaults)
    {
        return Some(why);
    }
    if host.statuses().any(|status| defaults.errors.contains(&status)) {
        return Some("returns a status that custom-http-errors replaces".to_owned());
    }
    if host.parts * layout.locations.len() > MAX_PARTS {
        let paths = layout.locations.len();
        return Some(format!("has {} parts for {paths} paths, and {MAX_PARTS} together work", host.parts));
    }
    if !uses.inputs.is_empty() && !layout.canaries.is_empty() {
        return Some("has more_*_input_headers, by which a canary may choose".to_owned());
    }
    let paths = layout.locations.iter().filter_map(|location| Some((location, location.owner.as_ref()?)));
    paths.into_iter().find_map(|(location, owner)| {
        let why = conflict_with_path(host, location, owner)?;
        Some(format!("{why} (path {} of Ingress {})", location.path, owner.key))
    })
}

fn conflict_with_path(host: &HostSnippet, location: &Location, owner: &Arc<ServedIngress>) -> Option<String> {
    let (uses, added) = (&host.uses, &owner.contributions.added);
    let asks = added.external_auth().is_some();
    if host.reads_target && (asks || added.mirrors()) {
        let conflicting = if asks { "auth-url" } else { "mirror-target" };
        return Some(format!(
            "depends on the path or the query, and nginx asks again for {conflicting}, with others"
        ));
    }
    if let Some(why) = conflict_with_phases(uses, added) {
        return Some(why);
    }
    if host.limits_app_root && owner.contributions.app_root.is_some() {
        return Some("answers behind app-root in nginx, or ends the rewrite phase before it".to_owned());
    }
    if host.access.is_some() && owner.contributions.satisfies_any && added.authenticates() {
        return Some("has allow or deny, and satisfy is any; use the source ranges".to_owned());
    }
    if !uses.inputs.is_empty() && added.sets_client_address() {
        return Some("has more_*_input_headers, by which a path may find the client's address".to_owned());
    }
    if host.client.is_some() && added.sets_client_address() {
        return Some("names the client, and so does a path".to_owned());
    }
    let balance = &owner.contributions.upstream.balance;
    if !uses.inputs.is_empty() && (balance.hash.is_some() || balance.cookie.is_some()) {
        return Some("has more_*_input_headers, by which upstream-hash-by or affinity may choose".to_owned());
    }
    let of_path = owner.contributions.snippet.as_deref();
    let rewrites = location.rewrite().is_some() || of_path.is_some_and(|of_path| of_path.rewrites);
    if rewrites && (uses.path || uses.query) {
        return Some("has headers that depend on the path or the query, which a path rewrites".to_owned());
    }
    conflict_with_path_snippet(host, of_path?)
}

fn conflict_with_path_snippet(host: &HostSnippet, of_path: &PathSnippetEffects) -> Option<String> {
    let common_name =
        |left: &BTreeSet<String>, other: &BTreeSet<String>| left.intersection(other).next().cloned();
    let (uses, others) = (&host.uses, &of_path.uses);
    let changed = common_name(&uses.inputs, &others.reads)
        .or_else(|| common_name(&uses.inputs, &others.requests))
        .or_else(|| common_name(&others.requests, &uses.reads));
    if let Some(name) = changed {
        return Some(format!("has {name}, which configuration-snippet reads or changes, too"));
    }
    if of_path.replaces_adds == ReplacementScope::Sometimes && !host.adds.is_empty() {
        return Some("has add_header, which an if of configuration-snippet replaces".to_owned());
    }
    (host.has_type && of_path.inherits_type)
        .then(|| "has default_type, and configuration-snippet a return without one".to_owned())
}
