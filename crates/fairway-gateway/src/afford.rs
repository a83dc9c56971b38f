//! What the regular expressions of a host's routes may cost together: one request is compared with all of them whose literal
//! start its path has. The budget is that of Ingresses (0010): routes are judged from the oldest, and what was admitted is
//! never put out by a later one. Owns what a rule costs; never knows a listener.

use std::sync::Arc;

use fairway_model::{FieldMatch, Match, Origin, PathMatch, Route, Rule, TextMatch};
use fairway_pattern::budget::Budget;
use fairway_pattern::{Anchor, Pattern};

use crate::condition::Fault;

/// What one match of a rule costs a request whose path begins so.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Price {
    /// The rule and the match of it, by their places.
    rule: usize,
    matching: usize,
    /// The literal start of its path.
    start: Arc<[u8]>,
    steps: u64,
    /// One of its regular expressions as it is compared.
    pattern: Arc<str>,
}

/// A match that a host cannot afford.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Unaffordable {
    /// The rule.
    pub(crate) origin: Origin,
    pub(crate) fault: Fault,
}

/// What the rules cost; nothing where they have no regular expressions.
pub(crate) fn prices(rules: &[Rule]) -> Arc<[Price]> {
    let priced = rules.iter().enumerate().flat_map(|(rule, of)| {
        of.matches.iter().enumerate().filter_map(move |(matching, it)| price(rule, matching, it))
    });
    priced.collect()
}

fn price(rule: usize, matching: usize, of: &Match) -> Option<Price> {
    let (mut steps, mut pattern) = (0, None::<Arc<str>>);
    let mut add = |text: &Arc<str>, anchor, ignore_case| {
        let compiled = Pattern::shared(text, anchor, ignore_case).ok()?;
        steps += compiled.cost().steps;
        pattern.get_or_insert_with(|| text.clone());
        Some(compiled.start().into())
    };
    let start: Arc<[u8]> = match &of.path {
        // The starts of patterns are in lower case, too.
        PathMatch::Exact(path) | PathMatch::Prefix(path) => path.to_ascii_lowercase().into_bytes().into(),
        PathMatch::Regex { pattern, ignore_case } => {
            add(pattern, Anchor::Start, *ignore_case).unwrap_or_default()
        }
    };
    for FieldMatch { value, .. } in of.headers.iter().chain(&of.query) {
        if let TextMatch::Regex(text) = value {
            add(text, Anchor::Both, false);
        }
    }
    pattern.map(|pattern| Price { rule, matching, start, steps, pattern })
}

/// The route with those matches that `budget` can still afford, and the others. The route itself where it affords all.
pub(crate) fn afford(
    route: &Arc<Route>,
    prices: &[Price],
    budget: &mut Budget,
) -> (Arc<Route>, Vec<Unaffordable>) {
    let namespace = &route.origin.namespace;
    let mut refused = Vec::new();
    let mut dropped = Vec::new();
    for price in prices {
        if let Err(exceeded) = budget.admit(namespace, &price.start, price.steps) {
            let problem = format!("the regular expression \"{}\" {exceeded}", price.pattern);
            let origin = route.rules[price.rule].origin.clone();
            refused.push(Unaffordable { origin, fault: Fault::new("UnsupportedValue", problem) });
            dropped.push((price.rule, price.matching));
        }
    }
    if dropped.is_empty() {
        return (route.clone(), refused);
    }
    let mut left = Route::clone(route);
    for (at, rule) in left.rules.iter_mut().enumerate() {
        let mut place = 0..;
        rule.matches.retain(|_| place.next().is_some_and(|place| !dropped.contains(&(at, place))));
    }
    left.rules.retain(|rule| !rule.matches.is_empty());
    (Arc::new(left), refused)
}

#[cfg(test)]
mod tests {
    use fairway_model::{Action, RuleLabels};

    use super::*;

    fn route(namespace: &str, name: &str, matches: &[Match]) -> Arc<Route> {
        let at = |field: &str| Origin { field: field.into(), ..Origin::object("HTTPRoute", namespace, name) };
        let rule = |(index, of): (usize, &Match)| Rule {
            origin: at(&format!("spec.rules[{index}]")),
            matches: vec![of.clone()],
            phases: Arc::default(),
            action: Action::Forward(Vec::new()),
            policy: Arc::default(),
            labels: RuleLabels::default(),
        };
        let rules = matches.iter().enumerate().map(rule).collect();
        Arc::new(Route { origin: at(""), created: None, hostname_rank: 0, rules })
    }

    fn regex(path: &str) -> Match {
        let path = PathMatch::Regex { pattern: path.into(), ignore_case: false };
        Match { path, ..Match::default() }
    }

    fn header(path: &str, pattern: &str) -> Match {
        let value = TextMatch::Regex(pattern.into());
        let headers = vec![FieldMatch { name: "x".into(), value }];
        Match { path: PathMatch::Prefix(path.into()), headers, ..Match::default() }
    }

    #[test]
    fn routes_of_a_host_share_one_budget_and_the_oldest_has_its_share_first() {
        let (mut budget, mut counts) = (Budget::default(), Vec::new());
        for name in 0..400 {
            let route = route("a", &name.to_string(), &[regex(&format!("(?:/x.*{name})$"))]);
            let (left, refused) = afford(&route, &prices(&route.rules), &mut budget);
            assert_eq!(left.rules.len() + refused.len(), 1);
            counts.push(refused.len());
        }
        assert_eq!((counts[0], counts[399]), (0, 1), "{counts:?}");
        assert!(counts.is_sorted(), "a later route has no more than an earlier one: {counts:?}");
        let other = route("b", "late", &[regex("(?:/x.*)$")]);
        assert!(
            afford(&other, &prices(&other.rules), &mut budget).1.is_empty(),
            "others have something left"
        );
    }

    #[test]
    fn conditions_on_fields_count_for_requests_whose_path_they_are_asked_for() {
        let mut budget = Budget::default();
        let greedy: Vec<_> = (0..300).map(|name| header("/a", &format!(".*{name}"))).collect();
        let greedy = route("a", "greedy", &greedy);
        let (left, refused) = afford(&greedy, &prices(&greedy.rules), &mut budget);
        assert!(!refused.is_empty() && left.rules.len() > 100, "{} of 300", left.rules.len());
        let elsewhere = route("a", "elsewhere", &[header("/b", ".*")]);
        assert!(afford(&elsewhere, &prices(&elsewhere.rules), &mut budget).1.is_empty());
        let text = &refused[0].fault.message;
        assert!(text.contains("is one too many") && text.contains("left to its namespace"), "{text}");
        assert_eq!(&*refused[0].origin.name, "greedy");
    }

    #[test]
    fn a_route_without_regular_expressions_is_the_same_object() {
        let path = PathMatch::Exact("/a".into());
        let plain = route("a", "plain", &[Match { path, ..Match::default() }]);
        let (left, refused) = afford(&plain, &prices(&plain.rules), &mut Budget::default());
        assert!(Arc::ptr_eq(&left, &plain) && refused.is_empty());
    }
}
