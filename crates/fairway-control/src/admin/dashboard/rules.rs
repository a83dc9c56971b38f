//! The rules of a configuration, found one by one, and how a list shows them.

use std::fmt::Write;
use std::sync::Arc;

use fairway_model::{
    Action, Config, HostKey, HostPattern, PathMatch, Route, Rule, VirtualHost, WeightedBackend, WildcardSpan,
};
use serde::Serialize;

use super::object::{ObjectLink, ObjectName};
use super::problem::Problem;
use super::query::{Query, parameters};
use super::search::Search;
use super::words::Words;

/// A rule, and where it is.
#[derive(Clone, Copy)]
pub(super) struct RulePlace<'c> {
    pub(super) host: &'c Arc<VirtualHost>,
    pub(super) rule: &'c Rule,
    route: &'c Arc<Route>,
    /// The position of the route in its host.
    route_at: usize,
    /// The position of the rule in its route.
    rule_at: usize,
}

/// A rule as a row of a list.
#[derive(Serialize)]
pub(super) struct RuleRow {
    host: String,
    /// The parameters of the page of the host.
    host_query: String,
    /// What it asks of requests, in as many texts as there are ways to match.
    matches: Vec<String>,
    /// Where its requests go.
    target: String,
    object: ObjectLink,
    /// The parameters of the page of the rule.
    query: String,
}

/// All rules.
pub(super) fn all(config: &Config) -> impl Iterator<Item = RulePlace<'_>> {
    config.hosts.values().flat_map(of_host)
}

/// Those of a host.
pub(super) fn of_host(host: &Arc<VirtualHost>) -> impl Iterator<Item = RulePlace<'_>> {
    host.routes.iter().enumerate().flat_map(move |(route_at, route)| {
        let rules = route.rules.iter().enumerate();
        rules.map(move |(rule_at, rule)| RulePlace { host, rule, route, route_at, rule_at })
    })
}

/// The host that the parameters `table` and `host` name.
pub(super) fn host<'c>(config: &'c Config, query: &Query) -> Result<&'c Arc<VirtualHost>, Problem> {
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
        .ok_or_else(|| Problem::missing("host", format!("table {table:?} has no host {name:?}")))
}

/// The rule of a host that the parameters `route` and `rule` name.
pub(super) fn rule<'c>(host: &'c Arc<VirtualHost>, query: &Query) -> Result<RulePlace<'c>, Problem> {
    let (route_at, rule_at) = (query.position("route")?, query.position("rule")?);
    let found = host.routes.get(route_at).and_then(|route| Some((route, route.rules.get(rule_at)?)));
    let (route, rule) = found.ok_or_else(|| {
        Problem::missing("rule", format!("this host has no rule {rule_at} in a route {route_at}"))
    })?;
    Ok(RulePlace { host, rule, route, route_at, rule_at })
}

/// Those of `rules` that the parameters `q`, `object` and `table` ask for.
pub(super) fn wanted<'c>(
    rules: impl Iterator<Item = RulePlace<'c>>,
    query: &Query,
) -> Result<impl Iterator<Item = RulePlace<'c>>, Problem> {
    let (search, object, table) = (Search::read(query), ObjectName::read(query)?, query.value("table"));
    let mut text = String::new();
    Ok(rules.filter(move |place| {
        let is_of_table = table.is_none_or(|table| table == &*place.host.key.table);
        if !is_of_table || object.is_some_and(|object| !place.is_of(object)) {
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

impl RulePlace<'_> {
    /// Whether an object gave it.
    pub(super) fn is_of(&self, object: ObjectName<'_>) -> bool {
        object.wrote(&self.route.origin) || object.wrote(&self.rule.origin)
    }

    /// The parameters of its page.
    pub(super) fn query(&self) -> String {
        let (route, rule) = (self.route_at.to_string(), self.rule_at.to_string());
        let HostKey { table, host } = &self.host.key;
        parameters(&[("table", table), ("host", &host.to_string()), ("route", &route), ("rule", &rule)])
    }

    /// As a row of a list.
    pub(super) fn row(&self, words: &dyn Words) -> RuleRow {
        RuleRow {
            host: self.host.key.host.to_string(),
            host_query: host_query(&self.host.key),
            matches: self.rule.matches.iter().map(|it| words.matched(it)).collect(),
            target: target(self.rule, words),
            object: ObjectLink::from_origin(&self.rule.origin),
            query: self.query(),
        }
    }

    /// Appends what a search looks at: names, paths and backends.
    fn write_searched(&self, out: &mut String) {
        let origin = &self.route.origin;
        // Writing to a String cannot fail.
        _ = write!(out, "{} {} {}/{}", self.host.key.host, origin.kind, origin.namespace, origin.name);
        for of in &self.rule.matches {
            _ = write!(out, " {}", path(&of.path));
        }
        if let Action::Forward(shares) = &self.rule.action {
            for share in shares {
                _ = write!(out, " {}", share.backend);
            }
        }
    }
}

/// The parameters of the page of a host.
pub(super) fn host_query(HostKey { table, host }: &HostKey) -> String {
    parameters(&[("table", table), ("host", &host.to_string())])
}

/// The path of a match, whatever its kind.
fn path(of: &PathMatch) -> &str {
    match of {
        PathMatch::Exact(path) | PathMatch::Prefix(path) | PathMatch::Regex { pattern: path, .. } => path,
    }
}

/// Where the requests of a rule go.
fn target(rule: &Rule, words: &dyn Words) -> String {
    let shares = match &rule.action {
        Action::Answer(answer) if answer.status < 400 => return answer.status.to_string(),
        Action::Answer(answer) => return format!("{}: {}", answer.status, words.reason(answer.reason)),
        Action::Forward(shares) => shares,
    };
    let of = |share: &WeightedBackend| match shares.len() {
        1 => share.backend.to_string(),
        _ => format!("{} (weight {})", share.backend, share.weight),
    };
    match shares.is_empty() {
        true => "500: it has no backend".to_owned(),
        false => shares.iter().map(of).collect::<Vec<_>>().join(", "),
    }
}
