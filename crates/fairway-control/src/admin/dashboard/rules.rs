//! Finds the rules of a configuration, and builds list rows from them.

use std::fmt::Write;
use std::sync::Arc;

use fairway_model::{
    Action, Config, HostKey, HostPattern, PathMatch, Route, Rule, VirtualHost, WeightedBackend, WildcardSpan,
};
use serde::Serialize;

use super::caller_text::ConfigDescriber;
use super::object::{ObjectLink, ObjectName};
use super::problem::Problem;
use super::query::{Query, parameters};
use super::search::Search;

/// A rule and its position.
#[derive(Clone, Copy)]
pub(super) struct LocatedRule<'c> {
    pub(super) host: &'c Arc<VirtualHost>,
    pub(super) rule: &'c Rule,
    route: &'c Arc<Route>,
    /// The index of the route in its host.
    route_at: usize,
    /// The index of the rule in its route.
    rule_at: usize,
}

/// A rule as a list row.
#[derive(Serialize)]
pub(super) struct RuleRow {
    host: String,
    /// The parameters of the host's page.
    host_query: String,
    /// Its matches, one text each.
    matches: Vec<String>,
    /// Where its requests go.
    target: String,
    object: ObjectLink,
    /// The parameters of the rule's page.
    query: String,
}

/// All rules.
pub(super) fn all_rules(config: &Config) -> impl Iterator<Item = LocatedRule<'_>> {
    config.hosts.values().flat_map(rules_of_host)
}

/// The rules of a host.
pub(super) fn rules_of_host(host: &Arc<VirtualHost>) -> impl Iterator<Item = LocatedRule<'_>> {
    host.routes.iter().enumerate().flat_map(move |(route_at, route)| {
        let rules = route.rules.iter().enumerate();
        rules.map(move |(rule_at, rule)| LocatedRule { host, rule, route, route_at, rule_at })
    })
}

/// The host named by the parameters `table` and `host`.
pub(super) fn find_host<'c>(config: &'c Config, query: &Query) -> Result<&'c Arc<VirtualHost>, Problem> {
    let (table, name) = (query.required("table")?, query.required("host")?);
    let patterns = match name.strip_prefix("*.") {
        Some(suffix) => [WildcardSpan::OneLabel, WildcardSpan::ManyLabels]
            .map(|span| HostPattern::Wildcard { suffix: suffix.into(), span })
            .to_vec(),
        None if name == "*" => vec![HostPattern::Any],
        None => vec![HostPattern::Exact(name.into())],
    };
    let mut keys = patterns.into_iter().map(|host| HostKey { table: table.into(), host });
    keys.find_map(|key| config.hosts.get(&key))
        .ok_or_else(|| Problem::not_found("host", format!("table {table:?} has no host {name:?}")))
}

/// The rule of a host named by the parameters `route` and `rule`.
pub(super) fn find_rule<'c>(host: &'c Arc<VirtualHost>, query: &Query) -> Result<LocatedRule<'c>, Problem> {
    let (route_at, rule_at) = (query.position("route")?, query.position("rule")?);
    let found = host.routes.get(route_at).and_then(|route| Some((route, route.rules.get(rule_at)?)));
    let (route, rule) = found.ok_or_else(|| {
        Problem::not_found("rule", format!("this host has no rule {rule_at} in a route {route_at}"))
    })?;
    Ok(LocatedRule { host, rule, route, route_at, rule_at })
}

/// The rules that match the parameters `q`, `object` and `table`.
pub(super) fn filter_rules<'c>(
    rules: impl Iterator<Item = LocatedRule<'c>>,
    query: &Query,
) -> Result<impl Iterator<Item = LocatedRule<'c>>, Problem> {
    let (search, object, table) =
        (Search::from_query(query), ObjectName::from_query(query)?, query.value("table"));
    let mut text = String::new();
    Ok(rules.filter(move |place| {
        let is_of_table = table.is_none_or(|table| table == &*place.host.key.table);
        if !is_of_table || object.is_some_and(|object| !place.is_from_object(object)) {
            return false;
        }
        if search.is_empty() {
            return true;
        }
        text.clear();
        place.write_searched(&mut text);
        search.finds(&mut text)
    }))
}

impl LocatedRule<'_> {
    /// Whether an object defines it.
    pub(super) fn is_from_object(&self, object: ObjectName<'_>) -> bool {
        object.matches_origin(&self.route.origin) || object.matches_origin(&self.rule.origin)
    }

    /// The parameters of its page.
    pub(super) fn query(&self) -> String {
        let (route, rule) = (self.route_at.to_string(), self.rule_at.to_string());
        let HostKey { table, host } = &self.host.key;
        parameters(&[("table", table), ("host", &host.to_string()), ("route", &route), ("rule", &rule)])
    }

    /// As a list row.
    pub(super) fn row(&self, words: &dyn ConfigDescriber) -> RuleRow {
        RuleRow {
            host: self.host.key.host.to_string(),
            host_query: host_query(&self.host.key),
            matches: self.rule.matches.iter().map(|it| words.describe_match(it)).collect(),
            target: target_text(self.rule, words),
            object: ObjectLink::from_origin(&self.rule.origin),
            query: self.query(),
        }
    }

    /// Appends what a search covers: names, paths and backends.
    fn write_searched(&self, out: &mut String) {
        let origin = &self.route.origin;
        // Writing to a String cannot fail.
        _ = write!(out, "{} {} {}/{}", self.host.key.host, origin.kind, origin.namespace, origin.name);
        for matched in &self.rule.matches {
            _ = write!(out, " {}", path_text(&matched.path));
        }
        if let Action::Forward(shares) = &self.rule.action {
            for share in shares {
                _ = write!(out, " {}", share.backend);
            }
        }
    }
}

/// The parameters of a host's page.
pub(super) fn host_query(HostKey { table, host }: &HostKey) -> String {
    parameters(&[("table", table), ("host", &host.to_string())])
}

/// The path of a match, of any kind.
fn path_text(path_match: &PathMatch) -> &str {
    match path_match {
        PathMatch::Exact(path) | PathMatch::Prefix(path) | PathMatch::Regex { pattern: path, .. } => path,
    }
}

/// Where the requests of a rule go.
fn target_text(rule: &Rule, words: &dyn ConfigDescriber) -> String {
    let shares = match &rule.action {
        Action::FixedResponse(answer) if answer.status < 400 => return answer.status.to_string(),
        Action::FixedResponse(answer) => {
            return format!("{}: {}", answer.status, words.describe_reason(answer.reason));
        }
        Action::Forward(shares) => shares,
    };
    let percentage = |share: &WeightedBackend| match shares.len() {
        1 => share.backend.to_string(),
        _ => format!("{} (weight {})", share.backend, share.weight),
    };
    match shares.is_empty() {
        true => "500: it has no backend".to_owned(),
        false => shares.iter().map(percentage).collect::<Vec<_>>().join(", "),
    }
}
