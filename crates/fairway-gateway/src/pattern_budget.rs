//! The shared cost budget for regular expressions in the routes of a host: a request is compared with every
//! expression whose literal prefix its path has. The budget is that of Ingresses (0010). The oldest routes are
//! admitted first, and a later route never displaces an earlier one.

use std::sync::Arc;

use fairway_model::{Match, NamedValueMatch, Origin, PathMatch, Route, Rule, TextMatch};
use fairway_pattern::budget::Budget;
use fairway_pattern::{Anchor, Pattern};

use crate::condition::Fault;

/// Cost of one match of a rule, for requests whose path has its literal prefix.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct MatchCost {
    /// Index of the rule and of its match.
    rule_index: usize,
    match_index: usize,
    /// Literal prefix of the path.
    start: Arc<[u8]>,
    steps: u64,
    /// One of its regular expressions, as compared.
    pattern: Arc<str>,
}

/// A match that exceeds the budget of a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RejectedMatch {
    /// The rule.
    pub(crate) origin: Origin,
    pub(crate) fault: Fault,
}

/// The costs of all matches; empty without regular expressions.
pub(crate) fn match_costs(rules: &[Rule]) -> Arc<[MatchCost]> {
    let priced = rules.iter().enumerate().flat_map(|(rule, of)| {
        of.matches.iter().enumerate().filter_map(move |(matching, it)| match_cost(rule, matching, it))
    });
    priced.collect()
}

fn match_cost(rule: usize, matching: usize, rule_match: &Match) -> Option<MatchCost> {
    let (mut steps, mut pattern) = (0, None::<Arc<str>>);
    let mut add = |text: &Arc<str>, anchor, ignore_case| {
        let compiled = Pattern::shared(text, anchor, ignore_case).ok()?;
        steps += compiled.cost().steps;
        pattern.get_or_insert_with(|| text.clone());
        Some(compiled.start().into())
    };
    let start: Arc<[u8]> = match &rule_match.path {
        // Literal prefixes of patterns are in lower case, too.
        PathMatch::Exact(path) | PathMatch::Prefix(path) => path.to_ascii_lowercase().into_bytes().into(),
        PathMatch::Regex { pattern, ignore_case } => {
            add(pattern, Anchor::Start, *ignore_case).unwrap_or_default()
        }
    };
    for NamedValueMatch { value, .. } in rule_match.headers.iter().chain(&rule_match.query) {
        if let TextMatch::Regex(text) = value {
            add(text, Anchor::Both, false);
        }
    }
    pattern.map(|pattern| MatchCost { rule_index: rule, match_index: matching, start, steps, pattern })
}

/// The route with the matches that fit into `budget`, and the rejected ones. Returns the same route if all fit.
pub(crate) fn admit_route(
    route: &Arc<Route>,
    prices: &[MatchCost],
    budget: &mut Budget,
) -> (Arc<Route>, Vec<RejectedMatch>) {
    let namespace = &route.origin.namespace;
    let mut refused = Vec::new();
    let mut dropped = Vec::new();
    for price in prices {
        if let Err(exceeded) = budget.admit(namespace, &price.start, price.steps) {
            let problem = format!("the regular expression \"{}\" {exceeded}", price.pattern);
            let origin = route.rules[price.rule_index].origin.clone();
            refused.push(RejectedMatch { origin, fault: Fault::new("UnsupportedValue", problem) });
            dropped.push((price.rule_index, price.match_index));
        }
    }
    if dropped.is_empty() {
        return (route.clone(), refused);
    }
    let mut admitted = Route::clone(route);
    for (at, rule) in admitted.rules.iter_mut().enumerate() {
        let mut indexes = 0..;
        rule.matches.retain(|_| indexes.next().is_some_and(|place| !dropped.contains(&(at, place))));
    }
    admitted.rules.retain(|rule| !rule.matches.is_empty());
    (Arc::new(admitted), refused)
}

#[cfg(test)]
mod tests {
    use fairway_model::{Action, RuleLabels};

    use super::*;

    fn route(namespace: &str, name: &str, matches: &[Match]) -> Arc<Route> {
        let at = |field: &str| Origin { field: field.into(), ..Origin::object("HTTPRoute", namespace, name) };
        let rule = |(index, matched): (usize, &Match)| Rule {
            origin: at(&format!("spec.rules[{index}]")),
            matches: vec![matched.clone()],
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
        let headers = vec![NamedValueMatch { name: "x".into(), value }];
        Match { path: PathMatch::Prefix(path.into()), headers, ..Match::default() }
    }

    #[test]
    fn routes_of_a_host_share_one_budget_and_the_oldest_has_its_share_first() {
        let (mut budget, mut counts) = (Budget::default(), Vec::new());
        for name in 0..400 {
            let route = route("a", &name.to_string(), &[regex(&format!("(?:/x.*{name})$"))]);
            let (left, refused) = admit_route(&route, &match_costs(&route.rules), &mut budget);
            assert_eq!(left.rules.len() + refused.len(), 1);
            counts.push(refused.len());
        }
        assert_eq!((counts[0], counts[399]), (0, 1), "{counts:?}");
        assert!(counts.is_sorted(), "a later route has no more than an earlier one: {counts:?}");
        let other = route("b", "late", &[regex("(?:/x.*)$")]);
        assert!(
            admit_route(&other, &match_costs(&other.rules), &mut budget).1.is_empty(),
            "others have something left"
        );
    }

    #[test]
    fn conditions_count_only_for_requests_with_their_path() {
        let mut budget = Budget::default();
        let greedy: Vec<_> = (0..300).map(|name| header("/a", &format!(".*{name}"))).collect();
        let greedy = route("a", "greedy", &greedy);
        let (left, refused) = admit_route(&greedy, &match_costs(&greedy.rules), &mut budget);
        assert!(!refused.is_empty() && left.rules.len() > 100, "{} of 300", left.rules.len());
        let elsewhere = route("a", "elsewhere", &[header("/b", ".*")]);
        assert!(admit_route(&elsewhere, &match_costs(&elsewhere.rules), &mut budget).1.is_empty());
        let text = &refused[0].fault.message;
        assert!(text.contains("is one too many") && text.contains("left to its namespace"), "{text}");
        assert_eq!(&*refused[0].origin.name, "greedy");
    }

    #[test]
    fn a_route_without_regular_expressions_is_the_same_object() {
        let path = PathMatch::Exact("/a".into());
        let plain = route("a", "plain", &[Match { path, ..Match::default() }]);
        let (left, refused) = admit_route(&plain, &match_costs(&plain.rules), &mut Budget::default());
        assert!(Arc::ptr_eq(&left, &plain) && refused.is_empty());
    }
}
