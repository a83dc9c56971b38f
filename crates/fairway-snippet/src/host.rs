//! The snippets of a host: `server-snippet` of an Ingress or of the ConfigMap, within `http-snippet`. They hold for all paths of the
//! host, and their `location` blocks take some paths away from it.

use std::sync::Arc;

use fairway_model::{
    AccessList, AnswerEdit, ChosenFields, Condition, Content, Guard, RealIp, Respond, Template, TemplatePart,
    Test,
};

use crate::cost;
use crate::edits::{Around, Changed, Edited, Uses, check_order, chosen, too_long};
use crate::level::{Access, Block, Level, real_ip};
use crate::map::Maps;
use crate::path::{access_list, respond};
use crate::problem::Problem;
use crate::program::run;
use crate::syntax::Directive;
use crate::value::Stage;
use crate::world::{End, Scope, World};

/// Blocks for paths that a snippet may have.
const MAX_LOCATIONS: usize = 40;

/// nginx `client_max_body_size`.
const MAX_BODY: u64 = 1 << 20;

/// What the snippets of a host do on all of its paths.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HostSnippet {
    /// Before a path is chosen.
    responds: Vec<Arc<Respond>>,
    /// Done to all answers before what the snippets of a path do.
    pub more: Vec<AnswerEdit>,
    /// `add_header`, for paths without any.
    pub adds: Vec<AnswerEdit>,
    /// `proxy_hide_header`, in lower case.
    pub hides: Vec<Arc<str>>,
    /// `allow` and `deny`, for paths without any.
    pub access: Option<AccessList>,
    /// Who the client is.
    pub client: Option<RealIp>,
    /// Fields that requests get.
    pub requests: Vec<Arc<ChosenFields>>,
    /// Whether the access log has no lines.
    pub unlogged: bool,
    /// Whether answers do not get the content coding gzip.
    pub gzip_off: bool,
    /// What its headers have to do with.
    pub uses: Uses,
    /// Whether `app-root` acts only for some requests: a `break` may end the rewrite phase before it, and what the ConfigMap answers
    /// comes behind it.
    pub is_around_app_root: bool,
    /// Conditions, and parts of texts.
    pub parts: usize,
    /// Whether paths get a type from it (`default_type`).
    pub has_type: bool,
    /// Whether an answer depends on the path or the query: nginx asks again where it asks a service (`auth_request`), with others.
    pub reads_target: bool,
    locations: Vec<Location>,
}

/// A `location` block, which answers all requests for its paths.
#[derive(Clone, Debug, PartialEq)]
struct Location {
    directive: String,
    line: u32,
    /// Whether it stands behind the paths of the host, as those of the ConfigMap.
    behind_paths: bool,
    kind: Kind,
    path: String,
    responds: Vec<Respond>,
}

/// How a block names its paths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// `=`
    Exact,
    /// Nothing, or `^~`, with which no pattern is tried behind it.
    Prefix { stops: bool },
    /// `~`, `~*`
    Pattern { ignore_case: bool },
}

/// `http-snippet`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HttpSnippet {
    /// Its maps.
    pub maps: Maps,
    level: Level,
    client: Option<RealIp>,
}

/// Makes values of the directives of `http-snippet`.
///
/// # Errors
/// The first directive that does not work.
pub fn http_snippet(directives: &[Directive]) -> Result<HttpSnippet, Problem> {
    if let Some(wrong) = directives.iter().find(|it| crate::program::is_of_rewrite_phase(&it.name)) {
        return Err(Problem::new(wrong.line, &wrong.text(), "nginx takes it in a server or a location only"));
    }
    let blocks = || directives.iter().filter(|it| it.name == "map");
    let maps = Maps::read(blocks())?;
    // nginx refuses one with a variable that is none, whether or not anything uses the map.
    for (map, name) in blocks().filter_map(|map| Some((map, map.words.get(1)?))) {
        let value = World::default().expand(name, &mut Scope::new(&maps, Stage::Path));
        value.map_err(|reason| Problem::new(map.line, &map.text(), reason))?;
    }
    Ok(HttpSnippet { maps, level: Level::read(directives, Block::Http)?, client: real_ip(directives)? })
}

/// Makes values of the directives of a host: those of an Ingress, and those of the ConfigMap behind them.
///
/// # Errors
/// The first directive that does not work.
pub fn host_snippet(
    own: &[Directive],
    of_settings: &[Directive],
    http: &HttpSnippet,
) -> Result<HostSnippet, Problem> {
    let directives = &*[own, of_settings].concat();
    let level = Level::read(directives, Block::Host)?;
    let mut scope = Scope::new(&http.maps, Stage::Host);
    let content_type =
        level.default_type.as_deref().or(http.level.default_type.as_deref()).unwrap_or("text/html");
    let mut blocks = Vec::new();
    let worlds = run(directives, vec![World::default()], &mut scope, &mut blocks, content_type)?;
    let levels =
        blocks.iter().map(|block| Level::read(block, Block::HostIf)).collect::<Result<Vec<_>, _>>()?;
    let mut responds = Vec::new();
    let around = Around { levels: vec![&http.level, &level], blocks: &levels };
    for world in worlds.iter().filter(|world| world.end.is_some()) {
        for edited in around.edits(world.clone(), &mut scope)? {
            responds.extend(answered(&edited)?.map(Arc::new));
        }
    }
    // `if` of a server has no other headers for requests that go on: nginx forgets it where a location is found.
    let outside = Around { levels: vec![&http.level, &level], blocks: &[] };
    let edited = outside.edits(World::default(), &mut scope)?;
    check_order(&edited)?;
    let changed = crate::edits::changed(&edited);
    let answer = |fields| AnswerEdit::Chosen(Arc::new(fields));
    let more = chosen(edited.iter(), |of| &of.more, &changed)?;
    let adds = chosen(edited.iter(), |of| &of.adds, &changed)?;
    let requests = chosen(edited.iter(), |of| &of.requests, &Changed::default())?;
    let too_long = too_long(requests.iter().chain(&more).chain(&adds), true);
    responds.extend(too_long.into_iter().map(Arc::new));
    let access = if level.access.rules.is_empty() { &http.level.access } else { &level.access };
    let hides = if level.hides.is_empty() { &http.level.hides } else { &level.hides };
    let is_location = |it: &&Directive| it.name == "location";
    let locations: Vec<_> = directives.iter().filter(is_location).collect();
    let of_ingress = own.iter().filter(is_location).count();
    if let Some(further) = locations.get(MAX_LOCATIONS) {
        let reason = format!("a snippet may have {MAX_LOCATIONS} of them");
        return Err(Problem::new(further.line, &further.text(), reason));
    }
    let mut found = Vec::new();
    for (number, directive) in locations.into_iter().enumerate() {
        let location = location(directive, &[&http.level, &level], &mut scope, content_type)?;
        found.extend(location.map(|location| Location { behind_paths: number >= of_ingress, ..location }));
    }
    if let Some(line) = level.satisfy_any.or(http.level.satisfy_any) {
        return Err(Problem::new(line, "satisfy any", "it works in configuration-snippet only"));
    }
    let answered =
        responds.iter().map(Arc::as_ref).chain(found.iter().flat_map(|location| &location.responds));
    cost::check(answered.flat_map(|respond| &respond.when))?;
    Ok(HostSnippet {
        more: more.into_iter().map(answer).collect(),
        adds: adds.into_iter().map(answer).collect(),
        hides: hides.iter().map(|name| Arc::from(name.as_str())).collect(),
        access: access_list(access)?,
        client: real_ip(directives)?.or_else(|| http.client.clone()),
        requests: requests.into_iter().map(Arc::new).collect(),
        unlogged: level.unlogged || http.level.unlogged,
        gzip_off: level.gzip_off || http.level.gzip_off,
        uses: Uses { link: scope.reads_link, ..Uses::of(&edited, &[&http.level, &level]) },
        is_around_app_root: worlds.iter().any(|world| world.end == Some(End::Goes))
            || of_settings.iter().any(|it| crate::program::is_of_rewrite_phase(&it.name)),
        parts: scope.spent(),
        has_type: level.default_type.is_some(),
        reads_target: responds.iter().any(|respond| reads_target(respond)),
        responds,
        locations: ordered(found),
    })
}

/// Whether an answer is given, or made, by the path or the query.
fn reads_target(respond: &Respond) -> bool {
    let conditions = respond.when.iter().flat_map(|condition| &condition.value.0);
    conditions.into_iter().any(|part| {
        matches!(
            part,
            TemplatePart::Path | TemplatePart::Query | TemplatePart::QueryMark | TemplatePart::Argument(_)
        )
    })
}

/// The answer that a world ends with, and what is done to it.
fn answered(edited: &Edited) -> Result<Option<Respond>, Problem> {
    let Some(respond) = respond(&edited.world) else { return Ok(None) };
    let mut of_host = chosen([edited].into_iter(), |of| &of.more, &Changed::default())?;
    of_host.extend(chosen([edited].into_iter(), |of| &of.adds, &Changed::default())?);
    Ok(Some(Respond { of_host: Some(of_host), ..respond }))
}

/// Reads a `location` block. One with a name is entered by nothing that works.
fn location(
    directive: &Directive,
    around: &[&Level],
    scope: &mut Scope<'_>,
    content_type: &str,
) -> Result<Option<Location>, Problem> {
    let problem = |reason: String| Problem::new(directive.line, &directive.text(), reason);
    let block = directive.block.as_deref().ok_or_else(|| problem("it has no block".to_owned()))?;
    let (kind, path) = match &*directive.words {
        [name] if name.starts_with('@') => return Ok(None),
        [path] if path.starts_with('/') => (Kind::Prefix { stops: false }, path),
        [modifier, path] => match modifier.as_str() {
            "=" => (Kind::Exact, path),
            "^~" => (Kind::Prefix { stops: true }, path),
            "~" => (Kind::Pattern { ignore_case: false }, path),
            "~*" => (Kind::Pattern { ignore_case: true }, path),
            _ => return Err(problem(format!("{modifier} is none of =, ^~, ~ and ~*"))),
        },
        _ => return Err(problem("its path does not begin with a slash".to_owned())),
    };
    let level = Level::read(block, Block::Location)?;
    let own_type = level.default_type.as_deref().unwrap_or(content_type);
    let condition = kind.condition(path);
    scope.admit(&condition.test).map_err(problem)?;
    let begin = World { when: vec![condition], ..World::default() };
    let mut blocks = Vec::new();
    let worlds = run(block, vec![begin], scope, &mut blocks, own_type)?;
    let levels = blocks.iter().map(|block| Level::read(block, Block::If)).collect::<Result<Vec<_>, _>>()?;
    let max_body = around.iter().rev().find_map(|level| level.max_body).unwrap_or(MAX_BODY);
    let max_body = (max_body > 0).then_some(max_body);
    let around = Around { levels: around.iter().copied().chain([&level]).collect(), blocks: &levels };
    // The access phase comes behind the rewrite phase.
    let is_closed =
        level.access.rules.first().is_some_and(|(allows, ranges)| !allows && Access::is_all(ranges));
    let mut responds = Vec::new();
    for mut world in worlds {
        if !matches!(world.end, Some(End::Answered { .. })) {
            if !is_closed {
                let reason = "requests that it does not answer get files, and there are none";
                return Err(problem(reason.to_owned()).instead("answer all with return, or deny all"));
            }
            world.end =
                Some(End::Answered { origin: directive.origin(), status: 403, content: Content::Status });
        }
        for edited in around.edits(world, scope)? {
            responds.extend(answered(&edited)?.map(|respond| Respond { max_body, ..respond }));
        }
    }
    if real_ip(block)?.is_some() || !level.hides.is_empty() || !level.inputs.is_empty() {
        return Err(problem("what it says about requests to endpoints has no effect in it".to_owned()));
    }
    Ok(Some(Location {
        directive: directive.text(),
        line: directive.line,
        behind_paths: false,
        kind,
        path: path.clone(),
        responds,
    }))
}

impl Kind {
    fn condition(self, path: &str) -> Condition {
        let value = Template(vec![TemplatePart::Path]);
        let test = match self {
            Self::Exact => Test::Equal(path.into()),
            Self::Prefix { .. } => Test::Pattern {
                pattern: format!("^{}", fairway_pattern::literal_pattern(path)).into(),
                ignore_case: false,
            },
            Self::Pattern { ignore_case } => Test::Pattern { pattern: path.into(), ignore_case },
        };
        Condition { value, test, negated: false }
    }
}

/// In the order in which nginx chooses: exact paths, prefixes behind which no pattern is tried, patterns as they are written, the
/// longest prefix.
fn ordered(mut locations: Vec<Location>) -> Vec<Location> {
    locations.sort_by_key(|location| {
        let length = std::cmp::Reverse(location.path.len());
        match location.kind {
            Kind::Exact => (0, length),
            Kind::Prefix { stops: true } => (1, length),
            Kind::Pattern { .. } => (2, std::cmp::Reverse(0)),
            Kind::Prefix { stops: false } => (3, length),
        }
    });
    locations
}

/// The paths of a rule, as nginx compares them with `location` blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RulePaths<'p> {
    /// `location = PATH`.
    Exact(&'p str),
    /// `location PREFIX`, and `location = EXACT` where the same rule is for that path, too.
    Prefix {
        /// With its slash.
        prefix: &'p str,
        /// The path without it.
        exact: Option<&'p str>,
    },
}

impl HostSnippet {
    /// Whether it may keep somebody out.
    #[must_use]
    pub fn protects(&self) -> bool {
        !self.responds.is_empty() || self.access.is_some() || !self.locations.is_empty()
    }

    /// The statuses that it answers.
    pub fn statuses(&self) -> impl Iterator<Item = u16> {
        let of_locations = self.locations.iter().flat_map(|location| &location.responds);
        self.responds.iter().map(Arc::as_ref).chain(of_locations).map(|respond| respond.status)
    }

    /// Whether it does nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// What answers requests before a path is chosen.
    pub fn guards_before_paths(&self) -> impl Iterator<Item = Guard> {
        self.responds.iter().cloned().map(Guard::Respond)
    }

    /// What answers requests of a rule instead of the rule.
    #[must_use]
    pub fn guards(&self, paths: RulePaths<'_>) -> Vec<Guard> {
        let mut guards: Vec<_> = self.guards_before_paths().collect();
        for location in self.locations.iter().filter(|location| location.wins_over(paths)) {
            let responds = location.responds.iter().cloned().map(|respond| match (paths, location.kind) {
                (
                    RulePaths::Prefix { exact: Some(exact), .. },
                    Kind::Pattern { .. } | Kind::Prefix { .. },
                ) => {
                    let own = Condition { negated: true, ..Kind::Exact.condition(exact) };
                    Respond { when: respond.when.into_iter().chain([own]).collect(), ..respond }
                }
                _ => respond,
            });
            guards.extend(responds.map(Arc::new).map(Guard::Respond));
        }
        guards
    }

    /// What is wrong with its `location` blocks on a host with these paths, whose rules are patterns or texts.
    ///
    /// # Errors
    /// The first block that has no effect or is one too many.
    pub fn check(&self, paths: &[RulePaths<'_>], has_patterns: bool) -> Result<(), Problem> {
        let stops = |location: &Location| location.kind == Kind::Prefix { stops: true };
        for location in &self.locations {
            let problem = |reason: &str| Err(Problem::new(location.line, &location.directive, reason));
            let is_taken = paths.iter().any(|rule| match (*rule, location.kind) {
                (RulePaths::Exact(path), Kind::Exact) => path == location.path,
                (RulePaths::Prefix { exact, .. }, Kind::Exact) => exact == Some(&*location.path),
                (RulePaths::Prefix { prefix, .. }, Kind::Prefix { .. }) => prefix == location.path,
                _ => false,
            });
            let same = |other: &&Location| other.path == location.path && other.kind == location.kind;
            if is_taken || self.locations.iter().filter(same).count() > 1 {
                return problem("there is such a location already, and nginx refuses another one");
            }
            let comes_behind = location.behind_paths && matches!(location.kind, Kind::Pattern { .. });
            let is_slash_away = paths.iter().any(|rule| match *rule {
                RulePaths::Prefix { prefix, exact } => {
                    prefix.strip_suffix('/') == Some(&location.path) && exact != Some(&location.path)
                }
                RulePaths::Exact(path) => path.strip_suffix('/') == Some(&location.path),
            });
            if is_slash_away && matches!(location.kind, Kind::Prefix { .. }) {
                return problem(
                    "a path of the host is the same with a slash, and nginx would redirect to it no longer",
                );
            }
            if has_patterns && (comes_behind || matches!(location.kind, Kind::Prefix { .. })) {
                return problem("the paths of the host are regular expressions, which come before it");
            }
            let is_longer = |other: &Location| other.path.starts_with(&location.path) && !stops(other);
            let prefixes = self.locations.iter().filter(|it| matches!(it.kind, Kind::Prefix { .. }));
            if stops(location) && prefixes.clone().any(is_longer) {
                return problem(
                    "a longer prefix without ^~ is in its paths, so that patterns are tried for some of them",
                );
            }
        }
        Ok(())
    }
}

impl Location {
    /// Whether nginx would choose it for requests of a rule that are in its paths.
    fn wins_over(&self, paths: RulePaths<'_>) -> bool {
        match (self.kind, paths) {
            (Kind::Exact, _) => true,
            (_, RulePaths::Exact(_)) => false,
            (Kind::Pattern { .. }, RulePaths::Prefix { .. }) => true,
            (Kind::Prefix { .. }, RulePaths::Prefix { prefix, .. }) => self.path.len() > prefix.len(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::syntax::directives;

    fn of(text: &str) -> HostSnippet {
        host_snippet(&directives("k", text).unwrap(), &[], &HttpSnippet::default()).unwrap()
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
    fn blocks_are_asked_in_the_order_in_which_nginx_chooses() {
        let host =
            of("location /a { return 401; } location ~ b { return 402; } location /abc { return 403; }
            location ^~ /s { return 404; } location = /e { return 405; } return 200;");
        assert_eq!(statuses(&host, ROOT), [200, 405, 404, 402, 403, 401]);
        let longer = RulePaths::Prefix { prefix: "/abc/", exact: Some("/abc") };
        assert_eq!(statuses(&host, longer), [200, 405, 402], "shorter prefixes lose");
        assert_eq!(statuses(&host, RulePaths::Exact("/abc")), [200, 405]);
    }

    #[test]
    fn blocks_that_nginx_would_refuse_or_never_choose_are_named() {
        let wrong = |text: &str, paths: &[RulePaths<'_>], patterns| of(text).check(paths, patterns).is_err();
        assert!(wrong("location / { return 403; }", &[ROOT], false));
        assert!(wrong("location = /a { return 403; }", &[RulePaths::Exact("/a")], false));
        assert!(wrong("location /a { return 403; } location /a { return 404; }", &[ROOT], false));
        assert!(wrong("location /a { return 403; }", &[ROOT], true));
        assert!(wrong("location ^~ /a { return 403; } location /ab { return 404; }", &[ROOT], false));
        assert!(!wrong("location ~ /a { return 403; } location = /b { return 404; }", &[ROOT], true));
    }
}
