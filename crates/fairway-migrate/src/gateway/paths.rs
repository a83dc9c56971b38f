//! Converts the matches and path rewrites of a rule to the Gateway API.

use std::collections::BTreeSet;

use fairway_model::{Match, NamedValueMatch, PathMatch, PathRewrite, TextMatch};
use fairway_objects::gateway_api::{HttpPathModifier, HttpRouteMatch, TypedValue, ValueMatch};
use fairway_objects::policies::PathSubstitution;

use crate::gateway::own_filter;
use crate::gateway::pattern::{self, PatternEnd, Shape};
use crate::gateway::remark::Remark;

/// The annotations that make paths regular expressions.
const PATTERN_ANNOTATIONS: &[&str] = &["use-regex", "rewrite-target"];

/// How the paths of a host are expressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Style {
    /// All paths are prefixes, or can be expressed as such.
    Prefixes,
    /// Some paths need regular expressions, so all that can be are regular expressions: precedence between rules is then decided
    /// among expressions.
    Expressions,
}

/// A match with the rewrite of its path.
#[derive(Clone, Debug, Default)]
pub(crate) struct Matched {
    pub(crate) route_match: HttpRouteMatch,
    /// The new path.
    pub(crate) path: Option<HttpPathModifier>,
    /// The new path, if it needs an HTTPRouteFilter.
    pub(crate) substitution: Option<PathSubstitution>,
    /// Why the path cannot be rewritten.
    pub(crate) lost: Option<String>,
    pub(crate) remarks: Vec<Remark>,
}

impl Style {
    /// The style for a host with these paths.
    pub(crate) fn from_paths<'m>(paths: impl Iterator<Item = &'m PathMatch>) -> Self {
        let mut patterns = paths.filter_map(|path| match path {
            PathMatch::Regex { pattern, .. } => Some(&**pattern),
            PathMatch::Exact(_) | PathMatch::Prefix(_) => None,
        });
        match patterns.any(|pattern| pattern::shape(pattern) == Shape::Other) {
            true => Self::Expressions,
            false => Self::Prefixes,
        }
    }
}

/// Converts a match and a rewrite, for which an HTTPRouteFilter may be used.
pub(crate) fn match_paths(
    source: &Match,
    rewrite: Option<&PathRewrite>,
    style: Style,
    has_own_filters: bool,
) -> Matched {
    let own_substitution = rewrite.filter(|_| has_own_filters).and_then(own_filter::substitution);
    let mut matched = Matched::default();
    let (kind, value) = match &source.path {
        PathMatch::Exact(path) => ("Exact", path.to_string()),
        PathMatch::Prefix(path) => ("PathPrefix", without_slash(path).to_owned()),
        PathMatch::Regex { pattern, ignore_case } => {
            let rewrite = (rewrite, own_substitution.clone());
            matched.pattern(pattern, *ignore_case, rewrite, style)
        }
    };
    if matched.path.is_none() && !matches!(source.path, PathMatch::Regex { .. }) {
        matched.rewrite(rewrite, kind, own_substitution);
    }
    matched.route_match.path = Some(TypedValue { type_: Some(kind.to_owned()), value: Some(value) });
    matched.route_match.method = source.method.as_ref().map(ToString::to_string);
    matched.route_match.headers =
        source.headers.iter().map(value_match).chain(source.cookies.iter().map(cookie_match)).collect();
    matched.route_match.query_params = source.query.iter().map(value_match).collect();
    matched
}

/// Whether a match only keeps sessions with an endpoint of the canary or the main Service.
pub(crate) fn is_of_session(route_match: &Match, cookies: &BTreeSet<&str>) -> bool {
    route_match.cookies.iter().any(|cookie| cookies.contains(&*cookie.name))
}

impl Matched {
    /// Converts a pattern. It becomes a prefix if it is one and the style of the host allows it, or its rewrite requires it.
    fn pattern(
        &mut self,
        pattern: &str,
        ignore_case: bool,
        (rewrite, own): (Option<&PathRewrite>, Option<PathSubstitution>),
        style: Style,
    ) -> (&'static str, String) {
        let shape = pattern::shape(pattern);
        let replacement = match rewrite {
            None => None,
            Some(PathRewrite::Regex { replacement, .. }) => Some(&**replacement),
            Some(other) => {
                self.rewrite(Some(other), "RegularExpression", None);
                return ("RegularExpression", pattern::covering_pattern(pattern, ignore_case));
            }
        };
        let modifier = replacement.map(|text| modifier(text, &shape));
        let needs_prefix = matches!(&modifier, Some(Ok(Some(it))) if it.replace_prefix_match.is_some());
        match modifier {
            Some(Ok(modifier)) => self.path = modifier,
            Some(Err(_)) if own.is_some() => self.substitution = own,
            Some(Err(why)) => {
                self.remarks.push(Remark::lost(PATTERN_ANNOTATIONS, why.clone()));
                self.lost = Some(why);
            }
            None => {}
        }
        match shape {
            Shape::Everything { .. } => ("PathPrefix", "/".to_owned()),
            Shape::Prefix { path, is_complete: whole, .. } if needs_prefix || style == Style::Prefixes => {
                self.report_narrower_path(&path, whole, ignore_case);
                if needs_prefix && style == Style::Expressions {
                    let remark = format!(
                        "regular expressions of the host take precedence over the prefix {path}; \
                         in ingress-nginx the longest path does"
                    );
                    self.remarks.push(Remark::differs(PATTERN_ANNOTATIONS, remark));
                }
                ("PathPrefix", path)
            }
            Shape::Prefix { .. } | Shape::Other => {
                let remark = "implementations of the Gateway API differ in their regular expressions; this one \
                            is written for RE2 and Fairway";
                self.remarks.push(Remark::differs(PATTERN_ANNOTATIONS, remark));
                ("RegularExpression", pattern::covering_pattern(pattern, ignore_case))
            }
        }
    }

    /// Adds remarks on paths that the pattern matches but the prefix does not.
    fn report_narrower_path(&mut self, path: &str, is_whole: bool, ignore_case: bool) {
        if ignore_case && path.chars().any(|character| character.is_ascii_alphabetic()) {
            let remark = format!("{path} is matched case-sensitively; ingress-nginx ignores case");
            self.remarks.push(Remark::differs(PATTERN_ANNOTATIONS, remark));
        }
        if !is_whole {
            let remark = format!("{path} covers whole path elements; ingress-nginx also matches {path}x");
            self.remarks.push(Remark::differs(PATTERN_ANNOTATIONS, remark));
        }
    }

    fn rewrite(
        &mut self,
        rewrite: Option<&PathRewrite>,
        kind: &str,
        own_substitution: Option<PathSubstitution>,
    ) {
        match (rewrite, kind) {
            (None, _) => {}
            (Some(PathRewrite::Full(path)), _) => self.path = Some(replace_full_path(path)),
            (Some(PathRewrite::Prefix(path)), "PathPrefix") => self.path = Some(replace_prefix(path)),
            (Some(PathRewrite::Regex { replacement, .. }), _) if is_plain(replacement) => {
                self.path = Some(replace_full_path(replacement));
            }
            (Some(_), _) if own_substitution.is_some() => self.substitution = own_substitution,
            (Some(_), _) => self.lost = Some("parts of this path cannot be replaced".to_owned()),
        }
    }
}

/// The path modifier of a rewrite; `None` if the path stays the same.
fn modifier(replacement: &str, shape: &Shape) -> Result<Option<HttpPathModifier>, String> {
    if is_plain(replacement) {
        return Ok(Some(replace_full_path(replacement)));
    }
    let lost = || Err(format!("the Gateway API cannot express rewrite-target {replacement} for this path"));
    let (rest, is_root) = match shape {
        Shape::Everything { pattern_end: Some(rest) } => (*rest, true),
        Shape::Prefix { pattern_end: Some(rest), .. } => (*rest, false),
        _ => return lost(),
    };
    let Some(before) = before_rest(replacement, rest) else { return lost() };
    Ok((!(is_root && before.is_empty()))
        .then(|| replace_prefix(if before.is_empty() { "/" } else { before })))
}

/// The text before the rest of the path in a replacement, without the slash between them; `None` if the replacement has another
/// form.
fn before_rest(replacement: &str, rest: PatternEnd) -> Option<&str> {
    let before = match rest {
        PatternEnd { group: 2, behind_slash: true } if replacement.ends_with("$1$2") => {
            replacement.strip_suffix("$1$2")?
        }
        PatternEnd { group, behind_slash: true } => replacement.strip_suffix(&format!("/${group}"))?,
        PatternEnd { group, behind_slash: false } => replacement.strip_suffix(&format!("${group}"))?,
    };
    let before = before.trim_end_matches('/');
    (is_plain(before) && (before.is_empty() || before.starts_with('/'))).then_some(before)
}

/// Whether a replacement is a plain path.
fn is_plain(replacement: &str) -> bool {
    !replacement.contains(['$', '?'])
}

fn replace_full_path(path: &str) -> HttpPathModifier {
    HttpPathModifier {
        type_: "ReplaceFullPath".to_owned(),
        replace_full_path: Some(path.to_owned()),
        replace_prefix_match: None,
    }
}

fn replace_prefix(path: &str) -> HttpPathModifier {
    HttpPathModifier {
        type_: "ReplacePrefixMatch".to_owned(),
        replace_full_path: None,
        replace_prefix_match: Some(path.to_owned()),
    }
}

/// The path modifier for a redirect to this path.
pub(crate) fn redirect_path(path: &PathRewrite) -> Option<HttpPathModifier> {
    match path {
        PathRewrite::Full(path) if is_plain(path) => Some(replace_full_path(path)),
        PathRewrite::Prefix(path) => Some(replace_prefix(path)),
        PathRewrite::Full(_) | PathRewrite::Regex { .. } => None,
    }
}

/// A trailing slash of a prefix has no meaning (Gateway API `PathMatchPathPrefix`).
fn without_slash(path: &str) -> &str {
    match path.trim_end_matches('/') {
        "" => "/",
        trimmed => trimmed,
    }
}

fn value_match(matched: &NamedValueMatch) -> ValueMatch {
    let (type_, value) = match &matched.value {
        TextMatch::Exact(text) => (None, text.to_string()),
        TextMatch::Regex(pattern) => (Some("RegularExpression".to_owned()), pattern.to_string()),
    };
    ValueMatch { name: matched.name.to_string(), type_, value }
}

/// Routes cannot match cookies, only the Cookie header.
fn cookie_match(matched: &NamedValueMatch) -> ValueMatch {
    let value = match &matched.value {
        TextMatch::Exact(text) => escape_pattern(text),
        TextMatch::Regex(pattern) => format!("(?:{pattern})"),
    };
    let value = format!("(?:.*; *)?{}={value}(?:;.*)?", escape_pattern(&matched.name));
    ValueMatch { name: "Cookie".to_owned(), type_: Some("RegularExpression".to_owned()), value }
}

/// Escapes a text for use in a regular expression.
fn escape_pattern(text: &str) -> String {
    let escape = |character: char| {
        let operator = "\\^$.|?*+()[]{}".contains(character);
        operator.then_some('\\').into_iter().chain([character])
    };
    text.chars().flat_map(escape).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn converted(pattern: &str, replacement: Option<&str>) -> Result<(String, Option<String>), String> {
        let path = PathMatch::Regex { pattern: pattern.into(), ignore_case: true };
        let rewrite = replacement.map(|replacement| PathRewrite::Regex {
            pattern: pattern.into(),
            replacement: replacement.into(),
            ignore_case: true,
        });
        let route_match = Match { path: path.clone(), ..Match::default() };
        let found =
            match_paths(&route_match, rewrite.as_ref(), Style::from_paths(std::iter::once(&path)), false);
        if let Some(lost) = found.lost {
            return Err(lost);
        }
        let path = found.route_match.path.unwrap();
        let modifier = found.path.map(|it| {
            let value = it.replace_prefix_match.or(it.replace_full_path).unwrap();
            format!("{} {value}", it.type_)
        });
        Ok((format!("{} {}", path.type_.unwrap(), path.value.unwrap()), modifier))
    }

    #[test]
    fn rewrites_become_prefixes_and_full_paths_if_possible() {
        for (pattern, replacement, path, modifier) in [
            ("/api(/|$)(.*)", Some("/$2"), "PathPrefix /api", Some("ReplacePrefixMatch /")),
            ("/api(/|$)(.*)", Some("/v2/$2"), "PathPrefix /api", Some("ReplacePrefixMatch /v2")),
            ("/api(/|$)(.*)", Some("/v2$1$2"), "PathPrefix /api", Some("ReplacePrefixMatch /v2")),
            ("/api(/.*)?", Some("/v2$1"), "PathPrefix /api", Some("ReplacePrefixMatch /v2")),
            ("/(.*)", Some("/$1"), "PathPrefix /", None),
            ("/(.*)", Some("/app/$1"), "PathPrefix /", Some("ReplacePrefixMatch /app")),
            ("/api", Some("/"), "PathPrefix /api", Some("ReplaceFullPath /")),
            ("/[a-z]+/x", Some("/y"), "RegularExpression (?i)/[a-z]+/x.*", Some("ReplaceFullPath /y")),
            ("/api/[0-9]+", None, "RegularExpression (?i)/api/[0-9]+.*", None),
        ] {
            let expected = (path.to_owned(), modifier.map(str::to_owned));
            assert_eq!(converted(pattern, replacement), Ok(expected), "{pattern} {replacement:?}");
        }
    }

    #[test]
    fn rewrites_without_a_path_modifier_are_lost() {
        for (pattern, replacement) in [
            ("/([a-z]+)/(.*)", "/$2/$1"),
            ("/api(/|$)(.*)", "/v2$2"),
            ("/api(/|$)(.*)", "/$2?from=api"),
            ("/api", "/$1"),
        ] {
            assert!(converted(pattern, Some(replacement)).is_err(), "{pattern} {replacement}");
        }
    }

    #[test]
    fn rewrites_without_a_path_modifier_use_fairways_filter() {
        let rewritten = |pattern: &str, replacement: &str| {
            let path = PathMatch::Regex { pattern: pattern.into(), ignore_case: true };
            let (pattern, replacement) = (pattern.into(), replacement.into());
            let rewrite = PathRewrite::Regex { pattern, replacement, ignore_case: true };
            let route_match = Match { path, ..Match::default() };
            let found = match_paths(&route_match, Some(&rewrite), Style::Expressions, true);
            (found.path.is_some(), found.substitution.is_some(), found.lost.is_some())
        };
        assert_eq!(rewritten("/([a-z]+)/(.*)", "/$2/$1"), (false, true, false));
        assert_eq!(rewritten("/api(/|$)(.*)", "/$2"), (true, false, false));
        assert_eq!(rewritten("/a/(.*)|/b/(.*)", "/$2"), (false, false, true));
    }

    #[test]
    fn a_cookie_match_becomes_a_cookie_header_match() {
        let cookie = NamedValueMatch { name: "a.b".into(), value: TextMatch::Exact("always".into()) };
        let found = cookie_match(&cookie);
        assert_eq!((found.name.as_str(), found.value.as_str()), ("Cookie", r"(?:.*; *)?a\.b=always(?:;.*)?"));
    }
}
