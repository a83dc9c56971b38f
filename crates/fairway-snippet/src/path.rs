//! Path snippets: `configuration-snippet`, followed by `location-snippet` of the ConfigMap.

use std::sync::Arc;

use fairway_model::{
    AccessList, Condition, ConditionTest, ConditionalHeaders, ConditionalResponse, Forwarding, Guard,
    PathRewrite, Phases, ResponseContent, ResponseEdit, ResponseHandling, Template, TemplatePart,
    UpstreamResponseEdit,
};
use ipnet::IpNet;

use crate::cost;
use crate::edits::{
    CaseEdits, ChangedParts, EnclosingBlocks, HeaderUses, changed_parts, check_order, conditional_headers,
    reject_too_long,
};
use crate::level::{Access, BlockKind, BlockSettings, WrittenHeader, real_ip};
use crate::map::Maps;
use crate::problem::Problem;
use crate::program::run;
use crate::symbolic_state::{CaseEnd, RequestCase, Scope};
use crate::syntax::Directive;
use crate::value::EvaluationStage;

/// The effects of a path's snippets.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PathSnippet {
    /// Effects on requests and responses.
    pub phases: Phases,
    /// `expires` and `add_header` lines.
    pub adds: Vec<ResponseEdit>,
    /// Whether `add_header` overrides those of the host.
    pub replaces_adds: ReplacementScope,
    /// Changes to the redirect that adds a trailing slash, before which the rewrite phase is not run.
    pub on_entry: Vec<ResponseEdit>,
    /// What its headers depend on and change.
    pub uses: HeaderUses,
    /// Whether a `return` uses the host's media type (`default_type`).
    pub inherits_type: bool,
    /// Whether an `if` affects requests that continue, which would discard headers of ingress-nginx's own `if`
    /// blocks.
    pub has_conditions: bool,
    /// Whether it contains `allow` or `deny`, which override those of the host.
    pub has_access: bool,
    /// The line of `satisfy any`.
    pub satisfy_any: Option<u32>,
    /// Whether it rewrites the path.
    pub rewrites: bool,
    /// Whether a `break` may end the rewrite phase.
    pub breaks: bool,
    /// Whether gzip is disabled, even if only for some requests.
    pub gzip_off: bool,
}

/// Whether the directives of a path override those of the host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReplacementScope {
    /// Never.
    #[default]
    Never,
    /// In some `if` only.
    Sometimes,
    /// Always.
    Always,
}

/// Translates the directives of a path.
///
/// # Errors
/// The first unsupported directive.
pub fn path_snippet(directives: &[Directive], maps: &Maps) -> Result<PathSnippet, Problem> {
    let level = BlockSettings::read(directives, BlockKind::Path)?;
    let mut scope = Scope::new(maps, EvaluationStage::Path);
    let content_type = level.default_type.as_deref().unwrap_or("text/html");
    let mut blocks = Vec::new();
    let worlds = run(directives, vec![RequestCase::default()], &mut scope, &mut blocks, content_type)?;
    let levels = blocks
        .iter()
        .map(|block| BlockSettings::read(block, BlockKind::If))
        .collect::<Result<Vec<_>, _>>()?;
    let around = EnclosingBlocks { levels: vec![&level], blocks: &levels };
    let mut edited = Vec::new();
    for world in worlds {
        edited.extend(around.edits(world, &mut scope)?);
    }
    let client = real_ip(directives)?.map(Box::new);
    let mut phases = Phases { client, unlogged: level.unlogged, ..Phases::default() };
    let responds = edited.iter().filter_map(|case| respond(&case.world));
    phases.guards.extend(responds.map(|respond| Guard::Respond(Arc::new(respond))));
    if let Some(guard) = early_address_use(&phases) {
        return Err(guard);
    }
    if let Some(input) = address_header_change(&phases, &level) {
        let reason = "it changes the header that names the client before nginx looks at it";
        return Err(Problem::new(input.line, &input.name, reason));
    }
    let access = access_list(&level.access)?;
    phases.guards.extend(access.map(Guard::Access));
    if let Some(set) = level.request_headers.iter().find(|set| set.name.eq_ignore_ascii_case("cookie")) {
        let reason = "sessions go by the cookies that clients send, and would be lost with it";
        return Err(Problem::new(set.line, &set.name, reason));
    }
    check_order(&edited)?;
    let path = path_rewrite(&edited, directives)?;
    let is_query = |path: &PathRewrite| matches!(path, PathRewrite::Regex { replacement, .. } if replacement.contains('?'));
    let changed = ChangedParts {
        path: path.is_some(),
        query: path.as_ref().is_some_and(is_query),
        ..changed_parts(&edited)
    };
    let going = edited.iter().filter(|case| !ends_in_response(&case.world));
    let requests = conditional_headers(going, |case| &case.requests, &changed.without_headers())?;
    let conditional = conditional_headers(edited.iter(), |case| &case.more_headers, &changed)?;
    let adds = conditional_headers(edited.iter(), |case| &case.adds, &changed)?;
    let on_entry = entry_headers(&level, directives, &mut scope)?;
    let too_long = reject_too_long(requests.iter().chain(&conditional).chain(&adds), false);
    phases.guards.extend(too_long.into_iter().map(|respond| Guard::Respond(Arc::new(respond))));
    phases.forwarding =
        Forwarding { path, chosen: requests.into_iter().map(Arc::new).collect(), ..Forwarding::default() }
            .if_not_empty();
    let response = |fields| ResponseEdit::Chosen(Arc::new(fields));
    let hidden: Arc<[Arc<str>]> = level.hidden_headers.iter().map(|name| Arc::from(name.as_str())).collect();
    phases.answers = ResponseHandling {
        received: (!hidden.is_empty()).then_some(UpstreamResponseEdit::Hide(hidden)).into_iter().collect(),
        edits: conditional.into_iter().map(response).collect(),
        ..ResponseHandling::default()
    };
    let adds: Vec<_> = adds.into_iter().map(response).collect();
    cost::check_cost(cost::conditions_of_phases(&phases).chain(cost::conditions_of_edits(&adds).flatten()))?;
    Ok(PathSnippet {
        adds,
        replaces_adds: match levels.iter().all(|level| level.adds.is_empty()) {
            _ if !level.adds.is_empty() => ReplacementScope::Always,
            true => ReplacementScope::Never,
            false => ReplacementScope::Sometimes,
        },
        on_entry: on_entry.into_iter().map(response).collect(),
        uses: HeaderUses { link: scope.depends_on_connection, ..HeaderUses::from_edits(&edited, &[&level]) },
        inherits_type: level.default_type.is_none() && phases.guards.iter().any(has_text_response),
        has_conditions: !blocks.is_empty(),
        has_access: !level.access.rules.is_empty(),
        satisfy_any: level.satisfy_any,
        rewrites: changed.path,
        breaks: edited
            .iter()
            .any(|case| matches!(case.world.end, Some(CaseEnd::Continues | CaseEnd::Rewritten(_)))),
        gzip_off: level.gzip_off || levels.iter().any(|level| level.gzip_off),
        phases,
    })
}

fn has_text_response(guard: &Guard) -> bool {
    matches!(guard, Guard::Respond(respond) if matches!(respond.content, ResponseContent::Text(..)))
}

/// The response headers of a path before its rewrite phase: variables are empty, and no `if` was entered.
fn entry_headers(
    level: &BlockSettings,
    directives: &[Directive],
    scope: &mut Scope<'_>,
) -> Result<Vec<ConditionalHeaders>, Problem> {
    let mut world = RequestCase::default();
    let all = directives.iter().chain(directives.iter().filter_map(|it| it.block.as_deref()).flatten());
    let set = all.filter(|it| it.name == "set").filter_map(|it| it.words.first());
    world
        .variables
        .extend(set.map(|name| (name.trim_start_matches('$').to_ascii_lowercase(), Template::default())));
    let edited = EnclosingBlocks { levels: vec![level], blocks: &[] }.edits(world, scope)?;
    let mut entered =
        conditional_headers(edited.iter(), |case| &case.more_headers, &ChangedParts::default())?;
    entered.extend(conditional_headers(edited.iter(), |case| &case.adds, &ChangedParts::default())?);
    Ok(entered)
}

/// A change to the header from which the client address is determined.
fn address_header_change<'l>(phases: &Phases, level: &'l BlockSettings) -> Option<&'l WrittenHeader> {
    let header = &*phases.client.as_ref()?.header;
    level.input_headers.iter().find(|input| input.name.eq_ignore_ascii_case(header))
}

/// nginx updates the client address only after the rewrite phase if the path sets the trusted peers.
fn early_address_use(phases: &Phases) -> Option<Problem> {
    phases.client.as_ref()?;
    let guards = phases.guards.iter().filter_map(|guard| match guard {
        Guard::Respond(respond) => Some(respond),
        _ => None,
    });
    let mut conditions = guards.flat_map(|respond| &respond.when);
    let reads = conditions.any(|condition| condition.value.0.contains(&TemplatePart::Address));
    let reason = "$remote_addr is not yet the address that real_ip_header names; put it into server-snippet";
    reads.then(|| Problem::new(1, "", reason))
}

fn ends_in_response(world: &RequestCase) -> bool {
    matches!(world.end, Some(CaseEnd::Answered { .. }))
}

/// The response that ends a request case.
pub(crate) fn respond(world: &RequestCase) -> Option<ConditionalResponse> {
    let Some(CaseEnd::Answered { origin, status, content }) = &world.end else { return None };
    Some(ConditionalResponse {
        origin: Arc::clone(origin),
        when: world.when.clone(),
        status: *status,
        content: content.clone(),
        host_headers: None,
        max_body: None,
    })
}

/// The single path rewrite of the request cases.
fn path_rewrite(edited: &[CaseEdits], directives: &[Directive]) -> Result<Option<PathRewrite>, Problem> {
    let mut paths: Vec<&PathRewrite> = Vec::new();
    for case in edited {
        if let Some(CaseEnd::Rewritten(path)) = &case.world.end
            && !paths.contains(&path)
        {
            paths.push(path);
        }
    }
    let Some(path) = paths.first() else { return Ok(None) };
    let PathRewrite::Regex { pattern, ignore_case, .. } = path else { return Ok(None) };
    let not_found = Condition {
        value: Template(vec![TemplatePart::Path]),
        test: ConditionTest::Pattern { pattern: format!("^{pattern}").into(), ignore_case: *ignore_case },
        negated: true,
    };
    // In a case without it, the path does not match, so it changes nothing there.
    let is_one =
        edited.iter().filter(|case| !ends_in_response(&case.world)).all(|case| match &case.world.end {
            Some(CaseEnd::Rewritten(_)) => true,
            _ => case.world.when.contains(&not_found),
        });
    match is_one && paths.len() == 1 {
        true => Ok(Some((*path).clone())),
        false => {
            let line = directives.iter().find(|it| it.name == "rewrite");
            let (line, text) = line.map_or((1, String::new()), |it| (it.line, it.text()));
            Err(Problem::new(line, &text, "only one rewrite with break works, and not in an if"))
        }
    }
}

/// `allow` and `deny` as a list with equivalent first-match semantics.
pub(crate) fn access_list(access: &Access) -> Result<Option<AccessList>, Problem> {
    let end = access.rules.iter().position(|(_, ranges)| Access::covers_everyone(ranges));
    let rules = &access.rules[..end.unwrap_or(access.rules.len())];
    let is_closed = end.is_some_and(|at| !access.rules[at].0);
    let denied = rules.iter().position(|(allows, _)| *allows).unwrap_or(rules.len());
    let rest = rules[denied..].iter().position(|(allows, _)| !allows).map_or(rules.len(), |at| denied + at);
    let ranges = |rules: &[(bool, Vec<IpNet>)]| {
        rules.iter().flat_map(|(_, ranges)| ranges.clone()).collect::<Vec<_>>()
    };
    let (deny, allow) = (ranges(&rules[..denied]), ranges(&rules[denied..rest]));
    let has_exceptions = match is_closed {
        true => rules[rest..].iter().any(|(allows, _)| *allows),
        false => rest < rules.len(),
    };
    if has_exceptions {
        let reason =
            "a range is denied behind one that is allowed, and only denied ranges before allowed ones work";
        return Err(Problem::new(access.line, "", reason));
    }
    Ok(match (is_closed, allow.is_empty()) {
        (true, true) => {
            Some(AccessList { deny: access.rules[end.unwrap_or_default()].1.clone(), allow: Vec::new() })
        }
        (true, false) => Some(AccessList { deny, allow }),
        (false, _) if deny.is_empty() => None,
        (false, _) => Some(AccessList { deny, allow: Vec::new() }),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::syntax::parse_directives;

    fn parse_path(text: &str) -> Result<PathSnippet, Problem> {
        path_snippet(&parse_directives("k", text)?, &Maps::default())
    }

    fn statuses(snippet: &PathSnippet) -> Vec<(usize, u16)> {
        let guards = snippet.phases.guards.iter().filter_map(|guard| match guard {
            Guard::Respond(respond) => Some((respond.when.len(), respond.status)),
            _ => None,
        });
        guards.collect()
    }

    #[test]
    fn variables_that_hold_each_other_many_times_are_refused_and_take_no_memory() {
        for first in ["aaaaaaaaaa", "$host"] {
            let text = format!("set $a {first};{}add_header X $a;", "set $a $a$a;".repeat(40));
            assert!(parse_path(&text).unwrap_err().to_string().contains("too often"), "{first}");
        }
    }

    #[test]
    fn flags_become_the_conditions_that_set_them() {
        let flags = "set $b ''; if ($http_a) { set $b A; } if ($arg_c = 1) { set $b \"${b}C\"; } if ($b = AC) { return 403; }";
        assert_eq!(statuses(&parse_path(flags).unwrap()), [(2, 403)]);
        let contradiction = "if ($request_method = GET) { set $a 1; } if ($a = 2) { return 403; }";
        assert!(
            parse_path(contradiction).is_err(),
            "a variable that is set in one case only has no value in the other"
        );
        let never = "set $a 1; if ($a = 2) { return 403; }";
        assert_eq!(statuses(&parse_path(never).unwrap()), []);
    }

    #[test]
    fn requests_too_long_for_a_header_condition_get_a_response() {
        let snippet = parse_path(
            "set $role user; if ($http_cookie ~ secret) { set $role admin; } proxy_set_header X-Role $role;",
        );
        assert_eq!(statuses(&snippet.unwrap()), [(1, 431)]);
        assert_eq!(
            statuses(&parse_path("if ($http_cookie ~ secret) { return 403; } add_header A b;").unwrap()),
            [(1, 403)]
        );
    }

    #[test]
    fn a_rewrite_in_a_branch_is_refused_unless_the_path_alone_decides() {
        assert!(parse_path("if ($http_x) { return 403; } rewrite ^/a/(.*)$ /n/$1 break;").is_ok());
        for branch in [
            "if ($http_x) { rewrite ^/a/(.*)$ /n/$1 break; }",
            "if ($http_x ~ ^/a/(.*)$) { rewrite ^/a/(.*)$ /n/$1 break; }",
            "if ($uri ~ ^/a/(.*)$) { rewrite (?i)^/a/(.*)$ /n/$1 break; }",
        ] {
            assert!(parse_path(branch).is_err(), "{branch}");
        }
    }

    #[test]
    fn the_total_size_of_all_cases_is_bounded() {
        let value = "$http_x".repeat(60);
        let blocks: String = (0..45)
            .map(|n| format!("if ($b = {n}) {{ set $c {n}; more_set_headers 'X-Q: {n}'; break; }}\n"))
            .collect();
        let headers: String = (0..400).map(|n| format!("more_set_headers -s 404 'X-{n}: a';\n")).collect();
        let problem = parse_path(&format!("set $b '{value}';\n{blocks}{headers}")).unwrap_err();
        assert!(problem.reason.contains("together have more than"), "{problem}");
    }

    #[test]
    fn the_last_block_that_was_entered_decides_about_add_header() {
        let text = "add_header A outer; if ($http_x) { add_header B x; } if ($http_y) { set $z 1; }";
        let snippet = parse_path(text).unwrap();
        let names = snippet.adds.iter().filter_map(|edit| match edit {
            ResponseEdit::Chosen(chosen) => Some((chosen.when.len(), chosen.fields[0].name.to_string())),
            _ => None,
        });
        // Neither block; only the first; the second, whether or not the first was entered before.
        let a = || "A".to_owned();
        let mut names: Vec<_> = names.collect();
        names.sort();
        assert_eq!(names, [(2, a()), (2, a()), (2, a()), (2, "B".to_owned())]);
    }

    #[test]
    fn the_first_range_that_covers_an_address_counts() {
        let list = |text: &str| {
            let snippet = parse_path(text)?;
            let list = snippet.phases.guards.into_iter().find_map(|guard| match guard {
                Guard::Access(list) => Some((list.deny.len(), list.allow.len())),
                _ => None,
            });
            Ok::<_, Problem>(list)
        };
        assert_eq!(list("deny all;"), Ok(Some((2, 0))));
        assert_eq!(list("deny 10.0.0.1; allow 10.0.0.0/8; deny all;"), Ok(Some((1, 1))));
        assert_eq!(list("deny 10.0.0.1; allow all; deny 10.0.0.2;"), Ok(Some((1, 0))));
        assert_eq!(list("allow 10.0.0.0/8;"), Ok(None));
        // All addresses of one family are not all addresses.
        assert_eq!(list("allow ::/0; deny all;"), Ok(Some((0, 1))));
        assert_eq!(list("allow 10.0.0.0/8; allow ::/0; deny all;"), Ok(Some((0, 2))));
        assert_eq!(list("deny ::/0; allow 10.0.0.0/8; deny all;"), Ok(Some((1, 1))));
        assert_eq!(list("deny 0.0.0.0/0;"), Ok(Some((1, 0))));
        assert!(list("allow 10.0.0.1; deny 10.0.0.0/8;").is_err());
    }

    #[test]
    fn rejects_too_many_cases_and_too_high_cost() {
        let many: String = (0..8).map(|n| format!("if ($http_{n}a) {{ set $v{n} 1; }}")).collect();
        assert!(parse_path(&many).unwrap_err().reason.contains("cases"));
        let costly: String =
            (0..400).map(|n| format!("if ($uri ~ (a|b){{9}}x{n}) {{ return 403; }}\n")).collect();
        assert!(parse_path(&costly).is_err());
    }

    #[test]
    fn messages_contain_no_values() {
        for text in [
            "sub_filter_x hunter2 hunter2;",
            "proxy_set_header Host \"hunter2\";",
            "if ($http_x = \"hunter2$host\") { return 403; }",
            "more_set_input_headers 'X-Forwarded-For: hunter2';",
            "add_header X-A 'hunter2",
            "proxy_set_header Authorization \"hunter2\"",
        ] {
            let problem = parse_path(text).unwrap_err().to_string();
            assert!(!problem.contains("hunter2") || text.starts_with("sub_filter_x"), "{problem}");
        }
        let snippet = parse_path("proxy_set_header Authorization hunter2;").unwrap();
        assert!(!snippet.phases.forwarding.unwrap().chosen[0].origin.contains("hunter2"));
    }
}
