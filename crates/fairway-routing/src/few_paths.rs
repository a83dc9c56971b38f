//! The paths of a host with few paths and no other conditions, stored in the host itself in the order they are tried,
//! so that a lookup among many hosts avoids another cache miss.

use std::cmp::Reverse;

use fairway_model::PathMatch;

use crate::candidate::{RankedMatch, covered_by_prefix};

/// The maximum number of paths.
const MAX_PATHS: usize = 8;
/// The maximum bytes of all paths. With its other fields, [`FewPaths`] is as large as a tree without its nodes.
const TEXT: usize = 62;

/// Up to [`MAX_PATHS`] paths with their rules: exact ones first, then prefixes, longest first.
#[derive(Clone, Debug)]
pub(crate) struct FewPaths {
    count: u8,
    entries: [PathEntry; MAX_PATHS],
    /// Their texts, concatenated.
    text: [u8; TEXT],
}

#[derive(Clone, Copy, Debug)]
struct PathEntry {
    /// The index of the rule in the host.
    rule: u8,
    length: u8,
    kind: PathKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum PathKind {
    Exact,
    Prefix,
}

impl FewPaths {
    /// The paths of all matches of a host, ordered by precedence; `None` if they are too many or too long, or if one
    /// has other conditions or a regular expression.
    pub(crate) fn from_matches(ordered: &[RankedMatch<'_>]) -> Option<Self> {
        let mut paths: Vec<(PathKind, &str, u8)> = Vec::new();
        for proposal in ordered {
            let (kind, path) = plain_path(proposal)?;
            // Of two matches on the same path, the first wins unconditionally.
            if !paths.iter().any(|(other, text, _)| (*other, *text) == (kind, path)) {
                paths.push((kind, path, u8::try_from(proposal.rule).ok()?));
            }
            if paths.len() > MAX_PATHS {
                return None;
            }
        }
        // `/` covers everything and counts as empty: `*` comes before it.
        paths.sort_by_key(|(kind, path, _)| (*kind, *path == "/", Reverse(path.len())));
        let mut few = Self {
            count: 0,
            entries: [PathEntry { rule: 0, length: 0, kind: PathKind::Exact }; MAX_PATHS],
            text: [0; TEXT],
        };
        let mut end = 0;
        for (place, (kind, path, rule)) in few.entries.iter_mut().zip(&paths) {
            few.text.get_mut(end..end + path.len())?.copy_from_slice(path.as_bytes());
            end += path.len();
            *place = PathEntry { rule: *rule, length: u8::try_from(path.len()).ok()?, kind: *kind };
            few.count += 1;
        }
        Some(few)
    }

    /// The index of the best matching rule, and the bytes of the path that it covers.
    #[inline]
    pub(crate) fn find(&self, path: &[u8]) -> Option<(u32, usize)> {
        let mut text = &self.text[..];
        for place in self.entries.iter().take(usize::from(self.count)) {
            let (own, rest) = text.split_at_checked(usize::from(place.length))?;
            let covered = match place.kind {
                PathKind::Exact => (own == path).then_some(path.len()),
                PathKind::Prefix => covered_by_prefix(own, path),
            };
            if let Some(covered) = covered {
                return Some((u32::from(place.rule), covered));
            }
            text = rest;
        }
        None
    }
}

/// The path of a match without other conditions.
fn plain_path<'m>(proposal: &RankedMatch<'m>) -> Option<(PathKind, &'m str)> {
    if !proposal.asks_only_for_a_path() {
        return None;
    }
    match &proposal.source.path {
        PathMatch::Exact(path) => Some((PathKind::Exact, path)),
        // Both cover everything.
        PathMatch::Prefix(path) if path.is_empty() => Some((PathKind::Prefix, "/")),
        PathMatch::Prefix(path) => Some((PathKind::Prefix, path)),
        PathMatch::Regex { .. } => None,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use fairway_model::{
        Action, HostKey, HostPattern, Match, Origin, PathForm, Route, Rule, RuleLabels, RuleOrder,
        VirtualHost,
    };
    use proptest::prelude::*;

    use super::*;
    use crate::candidate::proposals;
    use crate::request::{Fields, Request};
    use crate::tree::Tree;

    struct NoFields;

    impl Fields for NoFields {
        fn first(&self, _: &str) -> Option<&[u8]> {
            None
        }
    }

    fn host(paths: Vec<PathMatch>) -> VirtualHost {
        let rule = |path| Rule {
            origin: Origin::default(),
            matches: vec![Match { path, ..Match::default() }],
            phases: Arc::default(),
            action: Action::Forward(Vec::new()),
            policy: Arc::default(),
            labels: RuleLabels::default(),
        };
        let rules = paths.into_iter().map(rule).collect();
        VirtualHost {
            key: HostKey { table: "t".into(), host: HostPattern::Any },
            order: RuleOrder::Precedence,
            path_form: PathForm::Decoded,
            routes: vec![Arc::new(Route {
                origin: Origin::default(),
                created: None,
                hostname_rank: 0,
                rules,
            })],
            certificate: None,
            clients: None,
            suites: None,
            falls_through: false,
        }
    }

    fn ordered(host: &VirtualHost) -> Vec<RankedMatch<'_>> {
        let mut ordered: Vec<_> = proposals(host).collect();
        ordered.sort_by(RankedMatch::precedence);
        ordered
    }

    fn texts() -> impl Strategy<Value = String> {
        let elements = proptest::sample::select(vec!["a", "b", "ab", ""]);
        let deep = (proptest::collection::vec(elements, 1..4), any::<bool>())
            .prop_map(|(elements, slash)| format!("/{}{}", elements.join("/"), if slash { "/" } else { "" }));
        prop_oneof![8 => deep, 1 => proptest::sample::select(vec!["/", "*", "", "a/b"]).prop_map(str::to_owned)]
    }

    fn paths() -> impl Strategy<Value = PathMatch> {
        prop_oneof![
            1 => texts().prop_map(|path| PathMatch::Exact(path.into())),
            2 => texts().prop_map(|path| PathMatch::Prefix(path.into())),
        ]
    }

    proptest! {
        #[test]
        fn finds_what_a_tree_of_the_same_paths_finds(
            paths in proptest::collection::vec(paths(), 0..9),
            asked in proptest::collection::vec(texts(), 1..20),
        ) {
            let host = host(paths);
            let ordered = ordered(&host);
            let tree = Tree::compiled(&ordered, |_, why| panic!("{why}"));
            if let Some(few) = FewPaths::from_matches(&ordered) {
                for path in asked {
                    let path = path.as_bytes();
                    let (normalised, decoded, fields) = (path, path, &NoFields);
                    let request =
                        Request { host: "", method: b"GET", normalised, decoded, query: b"", fields };
                    prop_assert_eq!(few.find(path), tree.find(path, &request), "{:?}", path);
                }
            }
        }
    }

    #[test]
    fn many_long_or_conditional_paths_are_for_a_tree() {
        let prefix = |path: String| PathMatch::Prefix(path.into());
        let few = |paths: Vec<PathMatch>| FewPaths::from_matches(&ordered(&host(paths))).is_some();
        let numbered = |count: usize| (0..count).map(|n| prefix(format!("/{n}"))).collect();
        assert!(few(Vec::new()) && few(numbered(MAX_PATHS)) && !few(numbered(MAX_PATHS + 1)));
        assert!(few(vec![prefix("/".repeat(TEXT))]) && !few(vec![prefix("/".repeat(TEXT + 1))]));
        assert!(!few(vec![PathMatch::Regex { pattern: "/a".into(), ignore_case: false }]));
        let mut conditional = host(numbered(1));
        Arc::get_mut(&mut conditional.routes[0]).unwrap().rules[0].matches[0].method = Some("GET".into());
        assert!(FewPaths::from_matches(&ordered(&conditional)).is_none());
    }

    #[test]
    fn equal_paths_are_stored_once() {
        let twice = vec![PathMatch::Prefix("/a".into()); MAX_PATHS * 2];
        let few = FewPaths::from_matches(&ordered(&host(twice))).expect("it is one path");
        assert_eq!((few.count, few.find(b"/a/b")), (1, Some((0, 2))));
    }
}
