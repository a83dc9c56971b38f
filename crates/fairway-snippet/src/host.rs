//! Host snippets: `server-snippet` of an Ingress or of the ConfigMap, inside of `http-snippet`. They apply to all
//! paths of the host, except for paths that their `location` blocks take.

use std::sync::Arc;

use fairway_model::{
    AccessList, Condition, ConditionTest, ConditionalHeaders, ConditionalResponse, Guard, RealIp,
    ResponseContent, ResponseEdit, Template, TemplatePart,
};

use crate::cost;
use crate::edits::{
    CaseEdits, ChangedParts, EnclosingBlocks, HeaderUses, check_order, conditional_headers, reject_too_long,
};
use crate::level::{Access, BlockKind, BlockSettings, real_ip};
use crate::map::Maps;
use crate::path::{access_list, respond};
use crate::problem::Problem;
use crate::program::run;
use crate::symbolic_state::{CaseEnd, RequestCase, Scope};
use crate::syntax::Directive;
use crate::value::EvaluationStage;

/// Maximum number of location blocks in a snippet.
const MAX_LOCATIONS: usize = 40;

/// nginx `client_max_body_size`.
const MAX_BODY: u64 = 1 << 20;

/// The effects of a host's snippets on all of its paths.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HostSnippet {
    /// Responses before a path is selected.
    responses: Vec<Arc<ConditionalResponse>>,
    /// Changes to all responses, before those of path snippets.
    pub more_edits: Vec<ResponseEdit>,
    /// `add_header`, for paths without any.
    pub adds: Vec<ResponseEdit>,
    /// `proxy_hide_header`, in lower case.
    pub hidden_headers: Vec<Arc<str>>,
    /// `allow` and `deny`, for paths without any.
    pub access: Option<AccessList>,
    /// The client address.
    pub client: Option<RealIp>,
    /// Headers added to requests.
    pub requests: Vec<Arc<ConditionalHeaders>>,
    /// Whether the access log is disabled.
    pub unlogged: bool,
    /// Whether gzip is disabled.
    pub gzip_off: bool,
    /// What its headers depend on and change.
    pub uses: HeaderUses,
    /// Whether `app-root` applies only to some requests: a `break` may end the rewrite phase before it, and the
    /// ConfigMap's responses come after it.
    pub limits_app_root: bool,
    /// Number of conditions and text parts.
    pub parts: usize,
    /// Whether it sets the media type for paths (`default_type`).
    pub has_type: bool,
    /// Whether a response depends on the path or query: for external authentication (`auth_request`), nginx evaluates
    /// it again with other values.
    pub reads_target: bool,
    locations: Vec<LocationBlock>,
}

/// A `location` block, which responds to all requests for its paths.
#[derive(Clone, Debug, PartialEq)]
struct LocationBlock {
    directive: String,
    line: u32,
    /// Whether it comes after the paths of the host, like those of the ConfigMap.
    behind_paths: bool,
    kind: LocationKind,
    path: String,
    responses: Vec<ConditionalResponse>,
}

/// How a block selects paths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LocationKind {
    /// `=`
    Exact,
    /// No modifier, or `^~`, after which no pattern is tried.
    Prefix { stops: bool },
    /// `~`, `~*`
    Pattern { ignore_case: bool },
}

/// `http-snippet`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HttpSnippet {
    /// Its maps.
    pub maps: Maps,
    level: BlockSettings,
    client: Option<RealIp>,
}

/// Translates the directives of `http-snippet`.
///
/// # Errors
/// The first unsupported directive.
pub fn http_snippet(directives: &[Directive]) -> Result<HttpSnippet, Problem> {
    if let Some(wrong) = directives.iter().find(|it| crate::program::is_rewrite_directive(&it.name)) {
        return Err(Problem::new(wrong.line, &wrong.text(), "nginx takes it in a server or a location only"));
    }
    let blocks = || directives.iter().filter(|it| it.name == "map");
    let maps = Maps::read(blocks())?;
    // nginx rejects a map with an undefined variable, whether or not anything uses the map.
    for (map, name) in blocks().filter_map(|map| Some((map, map.words.get(1)?))) {
        let value = RequestCase::default().expand(name, &mut Scope::new(&maps, EvaluationStage::Path));
        value.map_err(|reason| Problem::new(map.line, &map.text(), reason))?;
    }
    Ok(HttpSnippet {
        maps,
        level: BlockSettings::read(directives, BlockKind::Http)?,
        client: real_ip(directives)?,
    })
}

/// Translates the directives of a host: those of an Ingress, followed by those of the ConfigMap.
///
/// # Errors
/// The first unsupported directive.
pub fn host_snippet(
    own: &[Directive],
    of_settings: &[Directive],
    http: &HttpSnippet,
) -> Result<HostSnippet, Problem> {
    let directives = &*[own, of_settings].concat();
    let level = BlockSettings::read(directives, BlockKind::Host)?;
    let mut scope = Scope::new(&http.maps, EvaluationStage::Host);
    let content_type =
        level.default_type.as_deref().or(http.level.default_type.as_deref()).unwrap_or("text/html");
    let mut blocks = Vec::new();
    let worlds = run(directives, vec![RequestCase::default()], &mut scope, &mut blocks, content_type)?;
    let levels = blocks
        .iter()
        .map(|block| BlockSettings::read(block, BlockKind::HostIf))
        .collect::<Result<Vec<_>, _>>()?;
    let mut responds = Vec::new();
    let around = EnclosingBlocks { levels: vec![&http.level, &level], blocks: &levels };
    for world in worlds.iter().filter(|world| world.end.is_some()) {
        for edited in around.edits(world.clone(), &mut scope)? {
            responds.extend(case_response(&edited)?.map(Arc::new));
        }
    }
    // Headers in an `if` of a server do not apply to requests that continue: nginx discards them when it finds a
    // location.
    let outside = EnclosingBlocks { levels: vec![&http.level, &level], blocks: &[] };
    let edited = outside.edits(RequestCase::default(), &mut scope)?;
    check_order(&edited)?;
    let changed = crate::edits::changed_parts(&edited);
    let response = |fields| ResponseEdit::Chosen(Arc::new(fields));
    let conditional = conditional_headers(edited.iter(), |case| &case.more_headers, &changed)?;
    let adds = conditional_headers(edited.iter(), |case| &case.adds, &changed)?;
    let requests = conditional_headers(edited.iter(), |case| &case.requests, &ChangedParts::default())?;
    let too_long = reject_too_long(requests.iter().chain(&conditional).chain(&adds), true);
    responds.extend(too_long.into_iter().map(Arc::new));
    let access = if level.access.rules.is_empty() { &http.level.access } else { &level.access };
    let hides =
        if level.hidden_headers.is_empty() { &http.level.hidden_headers } else { &level.hidden_headers };
    let is_location = |it: &&Directive| it.name == "location";
    let locations: Vec<_> = directives.iter().filter(is_location).collect();
    let of_ingress = own.iter().filter(is_location).count();
    if let Some(further) = locations.get(MAX_LOCATIONS) {
        let reason = format!("a snippet may have {MAX_LOCATIONS} of them");
        return Err(Problem::new(further.line, &further.text(), reason));
    }
    let mut found = Vec::new();
    for (number, directive) in locations.into_iter().enumerate() {
        let location = read_location(directive, &[&http.level, &level], &mut scope, content_type)?;
        found.extend(
            location.map(|location| LocationBlock { behind_paths: number >= of_ingress, ..location }),
        );
    }
    if let Some(line) = level.satisfy_any.or(http.level.satisfy_any) {
        return Err(Problem::new(line, "satisfy any", "it works in configuration-snippet only"));
    }
    let answered =
        responds.iter().map(Arc::as_ref).chain(found.iter().flat_map(|location| &location.responses));
    cost::check_cost(answered.flat_map(|respond| &respond.when))?;
    Ok(HostSnippet {
        more_edits: conditional.into_iter().map(response).collect(),
        adds: adds.into_iter().map(response).collect(),
        hidden_headers: hides.iter().map(|name| Arc::from(name.as_str())).collect(),
        access: access_list(access)?,
        client: real_ip(directives)?.or_else(|| http.client.clone()),
        requests: requests.into_iter().map(Arc::new).collect(),
        unlogged: level.unlogged || http.level.unlogged,
        gzip_off: level.gzip_off || http.level.gzip_off,
        uses: HeaderUses {
            link: scope.depends_on_connection,
            ..HeaderUses::from_edits(&edited, &[&http.level, &level])
        },
        limits_app_root: worlds.iter().any(|world| world.end == Some(CaseEnd::Continues))
            || of_settings.iter().any(|it| crate::program::is_rewrite_directive(&it.name)),
        parts: scope.spent(),
        has_type: level.default_type.is_some(),
        reads_target: responds.iter().any(|respond| reads_target(respond)),
        responses: responds,
        locations: sort_by_precedence(found),
    })
}

/// Whether a response or its condition depends on the path or query.
fn reads_target(respond: &ConditionalResponse) -> bool {
    let conditions = respond.when.iter().flat_map(|condition| &condition.value.0);
    conditions.into_iter().any(|part| {
        matches!(
            part,
            TemplatePart::Path | TemplatePart::Query | TemplatePart::QueryMark | TemplatePart::Argument(_)
        )
    })
}

/// The response that ends a request case, with changes to it.
fn case_response(edited: &CaseEdits) -> Result<Option<ConditionalResponse>, Problem> {
    let Some(respond) = respond(&edited.world) else { return Ok(None) };
    let mut of_host =
        conditional_headers([edited].into_iter(), |case| &case.more_headers, &ChangedParts::default())?;
    of_host.extend(conditional_headers([edited].into_iter(), |case| &case.adds, &ChangedParts::default())?);
    Ok(Some(ConditionalResponse { host_headers: Some(of_host), ..respond }))
}

/// Reads a `location` block. Nothing supported can enter a named one.
fn read_location(
    directive: &Directive,
    around: &[&BlockSettings],
    scope: &mut Scope<'_>,
    content_type: &str,
) -> Result<Option<LocationBlock>, Problem> {
    let problem = |reason: String| Problem::new(directive.line, &directive.text(), reason);
    let block = directive.block.as_deref().ok_or_else(|| problem("it has no block".to_owned()))?;
    let (kind, path) = match &*directive.words {
        [name] if name.starts_with('@') => return Ok(None),
        [path] if path.starts_with('/') => (LocationKind::Prefix { stops: false }, path),
        [modifier, path] => match modifier.as_str() {
            "=" => (LocationKind::Exact, path),
            "^~" => (LocationKind::Prefix { stops: true }, path),
            "~" => (LocationKind::Pattern { ignore_case: false }, path),
            "~*" => (LocationKind::Pattern { ignore_case: true }, path),
            _ => return Err(problem(format!("{modifier} is none of =, ^~, ~ and ~*"))),
        },
        _ => return Err(problem("its path does not begin with a slash".to_owned())),
    };
    let level = BlockSettings::read(block, BlockKind::Location)?;
    let own_type = level.default_type.as_deref().unwrap_or(content_type);
    let condition = kind.condition(path);
    scope.admit(&condition.test).map_err(problem)?;
    let begin = RequestCase { when: vec![condition], ..RequestCase::default() };
    let mut blocks = Vec::new();
    let worlds = run(block, vec![begin], scope, &mut blocks, own_type)?;
    let levels = blocks
        .iter()
        .map(|block| BlockSettings::read(block, BlockKind::If))
        .collect::<Result<Vec<_>, _>>()?;
    let max_body = around.iter().rev().find_map(|level| level.max_body).unwrap_or(MAX_BODY);
    let max_body = (max_body > 0).then_some(max_body);
    let around =
        EnclosingBlocks { levels: around.iter().copied().chain([&level]).collect(), blocks: &levels };
    // The access phase follows the rewrite phase.
    let is_closed =
        level.access.rules.first().is_some_and(|(allows, ranges)| !allows && Access::covers_everyone(ranges));
    let mut responds = Vec::new();
    for mut world in worlds {
        if !matches!(world.end, Some(CaseEnd::Answered { .. })) {
            if !is_closed {
                let reason = "requests that it does not answer get files, and there are none";
                return Err(problem(reason.to_owned()).instead("answer all with return, or deny all"));
            }
            world.end = Some(CaseEnd::Answered {
                origin: directive.origin(),
                status: 403,
                content: ResponseContent::Status,
            });
        }
        for edited in around.edits(world, scope)? {
            responds
                .extend(case_response(&edited)?.map(|respond| ConditionalResponse { max_body, ..respond }));
        }
    }
    if real_ip(block)?.is_some() || !level.hidden_headers.is_empty() || !level.input_headers.is_empty() {
        return Err(problem("what it says about requests to endpoints has no effect in it".to_owned()));
    }
    Ok(Some(LocationBlock {
        directive: directive.text(),
        line: directive.line,
        behind_paths: false,
        kind,
        path: path.clone(),
        responses: responds,
    }))
}

impl LocationKind {
    fn condition(self, path: &str) -> Condition {
        let value = Template(vec![TemplatePart::Path]);
        let test = match self {
            Self::Exact => ConditionTest::Equal(path.into()),
            Self::Prefix { .. } => ConditionTest::Pattern {
                pattern: format!("^{}", fairway_pattern::literal_pattern(path)).into(),
                ignore_case: false,
            },
            Self::Pattern { ignore_case } => ConditionTest::Pattern { pattern: path.into(), ignore_case },
        };
        Condition { value, test, negated: false }
    }
}

/// In nginx's order of precedence: exact paths, `^~` prefixes, patterns as written, the longest prefix.
fn sort_by_precedence(mut locations: Vec<LocationBlock>) -> Vec<LocationBlock> {
    locations.sort_by_key(|location| {
        let length = std::cmp::Reverse(location.path.len());
        match location.kind {
            LocationKind::Exact => (0, length),
            LocationKind::Prefix { stops: true } => (1, length),
            LocationKind::Pattern { .. } => (2, std::cmp::Reverse(0)),
            LocationKind::Prefix { stops: false } => (3, length),
        }
    });
    locations
}

/// The paths of a rule, as nginx compares them with `location` blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RulePaths<'p> {
    /// `location = PATH`.
    Exact(&'p str),
    /// `location PREFIX`, and `location = EXACT` if the same rule serves that path.
    Prefix {
        /// With its trailing slash.
        prefix: &'p str,
        /// The path without it.
        exact: Option<&'p str>,
    },
}

impl HostSnippet {
    /// Whether it may restrict access.
    #[must_use]
    pub fn protects(&self) -> bool {
        !self.responses.is_empty() || self.access.is_some() || !self.locations.is_empty()
    }

    /// The statuses of its responses.
    pub fn statuses(&self) -> impl Iterator<Item = u16> {
        let of_locations = self.locations.iter().flat_map(|location| &location.responses);
        self.responses.iter().map(Arc::as_ref).chain(of_locations).map(|respond| respond.status)
    }

    /// Whether it has no effect.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Responses before a path is selected.
    pub fn guards_before_paths(&self) -> impl Iterator<Item = Guard> {
        self.responses.iter().cloned().map(Guard::Respond)
    }

    /// Responses to requests of a rule, instead of the rule.
    #[must_use]
    pub fn guards(&self, paths: RulePaths<'_>) -> Vec<Guard> {
        let mut guards: Vec<_> = self.guards_before_paths().collect();
        for location in self.locations.iter().filter(|location| location.takes_precedence_over(paths)) {
            let responds = location.responses.iter().cloned().map(|respond| match (paths, location.kind) {
                (
                    RulePaths::Prefix { exact: Some(exact), .. },
                    LocationKind::Pattern { .. } | LocationKind::Prefix { .. },
                ) => {
                    let condition = Condition { negated: true, ..LocationKind::Exact.condition(exact) };
                    ConditionalResponse {
                        when: respond.when.into_iter().chain([condition]).collect(),
                        ..respond
                    }
                }
                _ => respond,
            });
            guards.extend(responds.map(Arc::new).map(Guard::Respond));
        }
        guards
    }

    /// Checks its `location` blocks against the paths of the host, whose rules are patterns or text.
    ///
    /// # Errors
    /// The first block without effect or in conflict.
    pub fn check(&self, paths: &[RulePaths<'_>], has_patterns: bool) -> Result<(), Problem> {
        let stops = |location: &LocationBlock| location.kind == LocationKind::Prefix { stops: true };
        for location in &self.locations {
            let problem = |reason: &str| Err(Problem::new(location.line, &location.directive, reason));
            let is_taken = paths.iter().any(|rule| match (*rule, location.kind) {
                (RulePaths::Exact(path), LocationKind::Exact) => path == location.path,
                (RulePaths::Prefix { exact, .. }, LocationKind::Exact) => exact == Some(&*location.path),
                (RulePaths::Prefix { prefix, .. }, LocationKind::Prefix { .. }) => prefix == location.path,
                _ => false,
            });
            let same = |other: &&LocationBlock| other.path == location.path && other.kind == location.kind;
            if is_taken || self.locations.iter().filter(same).count() > 1 {
                return problem("there is such a location already, and nginx refuses another one");
            }
            let comes_behind = location.behind_paths && matches!(location.kind, LocationKind::Pattern { .. });
            let is_slash_away = paths.iter().any(|rule| match *rule {
                RulePaths::Prefix { prefix, exact } => {
                    prefix.strip_suffix('/') == Some(&location.path) && exact != Some(&location.path)
                }
                RulePaths::Exact(path) => path.strip_suffix('/') == Some(&location.path),
            });
            if is_slash_away && matches!(location.kind, LocationKind::Prefix { .. }) {
                return problem(
                    "a path of the host is the same with a slash, and nginx would redirect to it no longer",
                );
            }
            if has_patterns && (comes_behind || matches!(location.kind, LocationKind::Prefix { .. })) {
                return problem("the paths of the host are regular expressions, which come before it");
            }
            let is_longer = |other: &LocationBlock| other.path.starts_with(&location.path) && !stops(other);
            let prefixes = self.locations.iter().filter(|it| matches!(it.kind, LocationKind::Prefix { .. }));
            if stops(location) && prefixes.clone().any(is_longer) {
                return problem(
                    "a longer prefix without ^~ is in its paths, so that patterns are tried for some of them",
                );
            }
        }
        Ok(())
    }
}

impl LocationBlock {
    /// Whether nginx would prefer it for requests of a rule that match both.
    fn takes_precedence_over(&self, paths: RulePaths<'_>) -> bool {
        match (self.kind, paths) {
            (LocationKind::Exact, _) => true,
            (_, RulePaths::Exact(_)) => false,
            (LocationKind::Pattern { .. }, RulePaths::Prefix { .. }) => true,
            (LocationKind::Prefix { .. }, RulePaths::Prefix { prefix, .. }) => self.path.len() > prefix.len(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::syntax::parse_directives;

    fn parse_host(text: &str) -> HostSnippet {
        host_snippet(&parse_directives("k", text).unwrap(), &[], &HttpSnippet::default()).unwrap()
    }

    fn statuses(host: &HostSnippet, paths: RulePaths<'_>) -> Vec<u16> {
        let guards = host.guards(paths);
        guards
            .iter()
            .filter_map(|guard| if let Guard::Respond(it) = guard { Some(it.status) } else { None })
            .collect()
    }

    const ROOT: RulePaths<'static> = RulePaths::Prefix { prefix: "/", exact: None };

    #[test]
    fn blocks_are_tried_in_the_order_of_nginx() {
        let host = parse_host(
            "location /a { return 401; } location ~ b { return 402; } location /abc { return 403; }
            location ^~ /s { return 404; } location = /e { return 405; } return 200;",
        );
        assert_eq!(statuses(&host, ROOT), [200, 405, 404, 402, 403, 401]);
        let longer = RulePaths::Prefix { prefix: "/abc/", exact: Some("/abc") };
        assert_eq!(statuses(&host, longer), [200, 405, 402], "shorter prefixes lose");
        assert_eq!(statuses(&host, RulePaths::Exact("/abc")), [200, 405]);
    }

    #[test]
    fn blocks_that_nginx_would_refuse_or_never_choose_are_named() {
        let wrong =
            |text: &str, paths: &[RulePaths<'_>], patterns| parse_host(text).check(paths, patterns).is_err();
        assert!(wrong("location / { return 403; }", &[ROOT], false));
        assert!(wrong("location = /a { return 403; }", &[RulePaths::Exact("/a")], false));
        assert!(wrong("location /a { return 403; } location /a { return 404; }", &[ROOT], false));
        assert!(wrong("location /a { return 403; }", &[ROOT], true));
        assert!(wrong("location ^~ /a { return 403; } location /ab { return 404; }", &[ROOT], false));
        assert!(!wrong("location ~ /a { return 403; } location = /b { return 404; }", &[ROOT], true));
    }
}
