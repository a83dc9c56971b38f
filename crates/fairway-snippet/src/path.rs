//! The snippets of a path: `configuration-snippet`, and `location-snippet` of the ConfigMap behind it.

use std::sync::Arc;

use fairway_model::{
    AccessList, AnswerEdit, Answers, ChosenFields, Condition, Content, Forwarding, Guard, PathRewrite,
    Phases, ReceivedEdit, Respond, Template, TemplatePart, Test,
};
use ipnet::IpNet;

use crate::cost;
use crate::edits::{Around, Changed, Edited, Uses, changed, check_order, chosen, too_long};
use crate::level::{Access, Block, Level, Written, real_ip};
use crate::map::Maps;
use crate::problem::Problem;
use crate::program::run;
use crate::syntax::Directive;
use crate::value::Stage;
use crate::world::{End, Scope, World};

/// What the snippets of a path do.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PathSnippet {
    /// What is done to its requests and their answers.
    pub phases: Phases,
    /// The `expires` and `add_header` lines.
    pub adds: Vec<AnswerEdit>,
    /// Whether `add_header` replaces those of the host.
    pub replaces_adds: Replaces,
    /// What is done to a redirect to the path with a slash, before which nothing of the rewrite phase is run.
    pub on_entry: Vec<AnswerEdit>,
    /// What its headers have to do with.
    pub uses: Uses,
    /// Whether a `return` has the type of the host (`default_type`).
    pub inherits_type: bool,
    /// Whether an `if` decides about requests that go on, so that headers of ingress-nginx's own `if` blocks would be lost.
    pub has_conditions: bool,
    /// Whether `allow` or `deny` stands in it, which replaces those of the host.
    pub has_access: bool,
    /// The line of `satisfy any`.
    pub satisfy_any: Option<u32>,
    /// Whether it rewrites the path.
    pub rewrites: bool,
    /// Whether a `break` may end the rewrite phase.
    pub breaks: bool,
    /// Whether answers do not get the content coding gzip, also where that is said of some requests only.
    pub gzip_off: bool,
}

/// Whether the directives of a path replace those of the host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Replaces {
    /// There are none.
    #[default]
    Never,
    /// In some `if` only.
    Sometimes,
    /// Always.
    Always,
}

/// Makes values of the directives of a path.
///
/// # Errors
/// The first directive that does not work.
pub fn path_snippet(directives: &[Directive], maps: &Maps) -> Result<PathSnippet, Problem> {
    let level = Level::read(directives, Block::Path)?;
    let mut scope = Scope::new(maps, Stage::Path);
    let content_type = level.default_type.as_deref().unwrap_or("text/html");
    let mut blocks = Vec::new();
    let worlds = run(directives, vec![World::default()], &mut scope, &mut blocks, content_type)?;
    let levels = blocks.iter().map(|block| Level::read(block, Block::If)).collect::<Result<Vec<_>, _>>()?;
    let around = Around { levels: vec![&level], blocks: &levels };
    let mut edited = Vec::new();
    for world in worlds {
        edited.extend(around.edits(world, &mut scope)?);
    }
    let client = real_ip(directives)?.map(Box::new);
    let mut phases = Phases { client, unlogged: level.unlogged, ..Phases::default() };
    let responds = edited.iter().filter_map(|of| respond(&of.world));
    phases.guards.extend(responds.map(|respond| Guard::Respond(Arc::new(respond))));
    if let Some(guard) = address_read(&phases) {
        return Err(guard);
    }
    if let Some(input) = input_of_address(&phases, &level) {
        let reason = "it changes the header that names the client before nginx looks at it";
        return Err(Problem::new(input.line, &input.name, reason));
    }
    let access = access_list(&level.access)?;
    phases.guards.extend(access.map(Guard::Access));
    if let Some(set) = level.sets.iter().find(|set| set.name.eq_ignore_ascii_case("cookie")) {
        let reason = "sessions go by the cookies that clients send, and would be lost with it";
        return Err(Problem::new(set.line, &set.name, reason));
    }
    check_order(&edited)?;
    let path = new_path(&edited, directives)?;
    let is_query = |path: &PathRewrite| matches!(path, PathRewrite::Regex { replacement, .. } if replacement.contains('?'));
    let changed =
        Changed { path: path.is_some(), query: path.as_ref().is_some_and(is_query), ..changed(&edited) };
    let going = edited.iter().filter(|of| !is_answered(&of.world));
    let requests = chosen(going, |of| &of.requests, &changed.before_fields())?;
    let more = chosen(edited.iter(), |of| &of.more, &changed)?;
    let adds = chosen(edited.iter(), |of| &of.adds, &changed)?;
    let on_entry = on_entry(&level, directives, &mut scope)?;
    let too_long = too_long(requests.iter().chain(&more).chain(&adds), false);
    phases.guards.extend(too_long.into_iter().map(|respond| Guard::Respond(Arc::new(respond))));
    phases.forwarding =
        Forwarding { path, chosen: requests.into_iter().map(Arc::new).collect(), ..Forwarding::default() }
            .kept();
    let answer = |fields| AnswerEdit::Chosen(Arc::new(fields));
    let hidden: Arc<[Arc<str>]> = level.hides.iter().map(|name| Arc::from(name.as_str())).collect();
    phases.answers = Answers {
        received: (!hidden.is_empty()).then_some(ReceivedEdit::Hide(hidden)).into_iter().collect(),
        edits: more.into_iter().map(answer).collect(),
        ..Answers::default()
    };
    let adds: Vec<_> = adds.into_iter().map(answer).collect();
    cost::check(cost::conditions(&phases).chain(cost::of_edits(&adds).flatten()))?;
    Ok(PathSnippet {
        adds,
        replaces_adds: match levels.iter().all(|level| level.adds.is_empty()) {
            _ if !level.adds.is_empty() => Replaces::Always,
            true => Replaces::Never,
            false => Replaces::Sometimes,
        },
        on_entry: on_entry.into_iter().map(answer).collect(),
        uses: Uses { link: scope.reads_link, ..Uses::of(&edited, &[&level]) },
        inherits_type: level.default_type.is_none() && phases.guards.iter().any(says_text),
        has_conditions: !blocks.is_empty(),
        has_access: !level.access.rules.is_empty(),
        satisfy_any: level.satisfy_any,
        rewrites: changed.path,
        breaks: edited.iter().any(|of| matches!(of.world.end, Some(End::Goes | End::Rewritten(_)))),
        gzip_off: level.gzip_off || levels.iter().any(|level| level.gzip_off),
        phases,
    })
}

fn says_text(guard: &Guard) -> bool {
    matches!(guard, Guard::Respond(respond) if matches!(respond.content, Content::Text(..)))
}

/// What answers get in a path of which nothing was run: variables are empty, and no `if` was entered.
fn on_entry(
    level: &Level,
    directives: &[Directive],
    scope: &mut Scope<'_>,
) -> Result<Vec<ChosenFields>, Problem> {
    let mut world = World::default();
    let all = directives.iter().chain(directives.iter().filter_map(|it| it.block.as_deref()).flatten());
    let set = all.filter(|it| it.name == "set").filter_map(|it| it.words.first());
    world
        .variables
        .extend(set.map(|name| (name.trim_start_matches('$').to_ascii_lowercase(), Template::default())));
    let edited = Around { levels: vec![level], blocks: &[] }.edits(world, scope)?;
    let mut entered = chosen(edited.iter(), |of| &of.more, &Changed::default())?;
    entered.extend(chosen(edited.iter(), |of| &of.adds, &Changed::default())?);
    Ok(entered)
}

/// What changes the header by which the client's address is found.
fn input_of_address<'l>(phases: &Phases, level: &'l Level) -> Option<&'l Written> {
    let header = &*phases.client.as_ref()?.header;
    level.inputs.iter().find(|input| input.name.eq_ignore_ascii_case(header))
}

/// nginx finds the client's address out again only behind the rewrite phase, where the path names who is believed.
fn address_read(phases: &Phases) -> Option<Problem> {
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

fn is_answered(world: &World) -> bool {
    matches!(world.end, Some(End::Answered { .. }))
}

/// The answer that a world ends with.
pub(crate) fn respond(world: &World) -> Option<Respond> {
    let Some(End::Answered { origin, status, content }) = &world.end else { return None };
    Some(Respond {
        origin: Arc::clone(origin),
        when: world.when.clone(),
        status: *status,
        content: content.clone(),
        of_host: None,
        max_body: None,
    })
}

/// The one rewrite of the path that the worlds have.
fn new_path(edited: &[Edited], directives: &[Directive]) -> Result<Option<PathRewrite>, Problem> {
    let mut paths: Vec<&PathRewrite> = Vec::new();
    for of in edited {
        if let Some(End::Rewritten(path)) = &of.world.end
            && !paths.contains(&path)
        {
            paths.push(path);
        }
    }
    let Some(path) = paths.first() else { return Ok(None) };
    let PathRewrite::Regex { pattern, ignore_case, .. } = path else { return Ok(None) };
    let not_found = Condition {
        value: Template(vec![TemplatePart::Path]),
        test: Test::Pattern { pattern: format!("^{pattern}").into(), ignore_case: *ignore_case },
        negated: true,
    };
    // A world without it has a path in which it is not found, so that it changes nothing there.
    let is_one = edited.iter().filter(|of| !is_answered(&of.world)).all(|of| match &of.world.end {
        Some(End::Rewritten(_)) => true,
        _ => of.world.when.contains(&not_found),
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

/// `allow` and `deny` as a list, where the first that covers the address says the same.
pub(crate) fn access_list(access: &Access) -> Result<Option<AccessList>, Problem> {
    let end = access.rules.iter().position(|(_, ranges)| Access::is_all(ranges));
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
    use crate::syntax::directives;

    fn of(text: &str) -> Result<PathSnippet, Problem> {
        path_snippet(&directives("k", text)?, &Maps::default())
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
            assert!(of(&text).unwrap_err().to_string().contains("too often"), "{first}");
        }
    }

    #[test]
    fn flags_become_the_conditions_that_set_them() {
        let flags = "set $b ''; if ($http_a) { set $b A; } if ($arg_c = 1) { set $b \"${b}C\"; } if ($b = AC) { return 403; }";
        assert_eq!(statuses(&of(flags).unwrap()), [(2, 403)]);
        let contradiction = "if ($request_method = GET) { set $a 1; } if ($a = 2) { return 403; }";
        assert!(
            of(contradiction).is_err(),
            "a variable that is set in one case only has no value in the other"
        );
        let never = "set $a 1; if ($a = 2) { return 403; }";
        assert_eq!(statuses(&of(never).unwrap()), []);
    }

    #[test]
    fn requests_that_are_too_long_for_a_condition_of_a_header_are_answered() {
        let snippet = of(
            "set $role user; if ($http_cookie ~ secret) { set $role admin; } proxy_set_header X-Role $role;",
        );
        assert_eq!(statuses(&snippet.unwrap()), [(1, 431)]);
        assert_eq!(
            statuses(&of("if ($http_cookie ~ secret) { return 403; } add_header A b;").unwrap()),
            [(1, 403)]
        );
    }

    #[test]
    fn a_rewrite_in_a_branch_is_refused_unless_the_path_alone_decides() {
        assert!(of("if ($http_x) { return 403; } rewrite ^/a/(.*)$ /n/$1 break;").is_ok());
        for branch in [
            "if ($http_x) { rewrite ^/a/(.*)$ /n/$1 break; }",
            "if ($http_x ~ ^/a/(.*)$) { rewrite ^/a/(.*)$ /n/$1 break; }",
            "if ($uri ~ ^/a/(.*)$) { rewrite (?i)^/a/(.*)$ /n/$1 break; }",
        ] {
            assert!(of(branch).is_err(), "{branch}");
        }
    }

    #[test]
    fn what_is_written_down_for_all_cases_together_is_bounded() {
        let value = "$http_x".repeat(60);
        let blocks: String = (0..45)
            .map(|n| format!("if ($b = {n}) {{ set $c {n}; more_set_headers 'X-Q: {n}'; break; }}\n"))
            .collect();
        let headers: String = (0..400).map(|n| format!("more_set_headers -s 404 'X-{n}: a';\n")).collect();
        let problem = of(&format!("set $b '{value}';\n{blocks}{headers}")).unwrap_err();
        assert!(problem.reason.contains("together have more than"), "{problem}");
    }

    #[test]
    fn the_last_block_that_was_entered_decides_about_add_header() {
        let text = "add_header A outer; if ($http_x) { add_header B x; } if ($http_y) { set $z 1; }";
        let snippet = of(text).unwrap();
        let names = snippet.adds.iter().filter_map(|edit| match edit {
            AnswerEdit::Chosen(chosen) => Some((chosen.when.len(), chosen.fields[0].name.to_string())),
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
            let snippet = of(text)?;
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
        // Everybody of one family is not everybody.
        assert_eq!(list("allow ::/0; deny all;"), Ok(Some((0, 1))));
        assert_eq!(list("allow 10.0.0.0/8; allow ::/0; deny all;"), Ok(Some((0, 2))));
        assert_eq!(list("deny ::/0; allow 10.0.0.0/8; deny all;"), Ok(Some((1, 1))));
        assert_eq!(list("deny 0.0.0.0/0;"), Ok(Some((1, 0))));
        assert!(list("allow 10.0.0.1; deny 10.0.0.0/8;").is_err());
    }

    #[test]
    fn what_makes_too_many_cases_or_costs_too_much_is_refused() {
        let many: String = (0..8).map(|n| format!("if ($http_{n}a) {{ set $v{n} 1; }}")).collect();
        assert!(of(&many).unwrap_err().reason.contains("cases"));
        let costly: String =
            (0..400).map(|n| format!("if ($uri ~ (a|b){{9}}x{n}) {{ return 403; }}\n")).collect();
        assert!(of(&costly).is_err());
    }

    #[test]
    fn no_value_is_in_a_message() {
        for text in [
            "sub_filter_x hunter2 hunter2;",
            "proxy_set_header Host \"hunter2\";",
            "if ($http_x = \"hunter2$host\") { return 403; }",
            "more_set_input_headers 'X-Forwarded-For: hunter2';",
            "add_header X-A 'hunter2",
            "proxy_set_header Authorization \"hunter2\"",
        ] {
            let problem = of(text).unwrap_err().to_string();
            assert!(!problem.contains("hunter2") || text.starts_with("sub_filter_x"), "{problem}");
        }
        let snippet = of("proxy_set_header Authorization hunter2;").unwrap();
        assert!(!snippet.phases.forwarding.unwrap().chosen[0].origin.contains("hunter2"));
    }
}
