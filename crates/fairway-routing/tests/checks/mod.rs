//! Checks for any table: a lookup agrees with the slow, obvious matcher, an explanation with the lookup, and an edited
//! table with one compiled from scratch. Called by the fuzz target and by the rerun of its corpus.

// The fuzz target includes this file by its path, where `crate::tables` does not exist.
#[allow(clippy::duplicate_mod, reason = "the test program has these tables, too")]
#[path = "../tables/mod.rs"]
mod tables;

use std::sync::Arc;

use arbitrary::{Result, Unstructured};
use fairway_model::{
    Action, BackendKey, Config, HostKey, HostPattern, Match, NamedValueMatch, PathForm, PathMatch, Route,
    Rule, RuleOrder, TextMatch, VirtualHost, WeightedBackend, WildcardSpan,
};
use fairway_routing::oracle::{self, OracleMatch};
use fairway_routing::{Snapshot, compile};

use tables::*;

const TABLES: [&str; 2] = ["one", "two"];
const SUFFIXES: [&str; 5] = ["c", "b.c", "y.b.c", "x.b.c", "a.b.c"];
const NAMES: [&str; 10] = ["", "c", "b.c", "a.b.c", "x.b.c", "x.y.b.c", "y.c", ".b.c", "d", "a.x.b.c"];
const BACKENDS: [&str; 4] = ["b0", "b1", "b2", "b3"];
const ELEMENTS: [&str; 9] =
    ["a", "b", "aa", "", "A", "a-long-path-element-1", "a-long-path-element-2", "*", "."];
const PATTERNS: [&str; 11] =
    ["/a", "/a.*", "/[ab]+", "/(a|b)/a", "/b?/a", "/A{1,2}", ".*", "/a|/b", "/a(", "^/a$", "/a(?=/)"];
const QUERIES: [&str; 8] = ["", "q=1", "q=1&r=2", "r=1%202", "q=1+2&r=1", "%71=2", "&&q", "q=%"];

/// Any bytes as edits of a configuration and requests in between.
pub(crate) fn route(input: &[u8]) {
    _ = play(&mut Unstructured::new(input));
}

fn play(choices: &mut Unstructured<'_>) -> Result<()> {
    let mut config = Config::default();
    let mut snapshot = compile(&config, None).snapshot;
    for _ in 0..choices.int_in_range(1..=4)? {
        for _ in 0..choices.int_in_range(1..=4)? {
            edit(choices, &mut config)?;
        }
        let next = compile(&config, Some(&snapshot));
        let scratch = compile(&config, None);
        assert_eq!(next.problems, scratch.problems);
        for _ in 0..choices.int_in_range(1..=6)? {
            let ask = arbitrary_request(choices)?;
            for table in TABLES {
                agree(&config, [&next.snapshot, &scratch.snapshot], table, &ask);
            }
        }
        snapshot = next.snapshot;
    }
    Ok(())
}

fn agree(config: &Config, snapshots: [&Snapshot; 2], table: &str, ask: &Ask) {
    let expected = oracle::find(config, table, &ask.request());
    for snapshot in snapshots {
        let id = snapshot.table(table);
        let found = id.map_or(OracleMatch::NoHost, |id| oracle_match(snapshot.lookup(id, &ask.request())));
        assert_eq!(found, expected, "{ask:?}");
        if let Some(id) = id {
            assert_eq!(oracle_match(snapshot.explain(id, &ask.request()).outcome), expected, "{ask:?}");
        }
    }
}

fn edit(choices: &mut Unstructured<'_>, config: &mut Config) -> Result<()> {
    match choices.int_in_range(0..=9)? {
        0..=5 => put(config, virtual_host(choices)?),
        6 => drop(config.hosts.remove(&key(choices)?)),
        7 => put_backend(config, choices.choose(&BACKENDS)?, choices.int_in_range(0..=2)?),
        8 => drop(config.backends.remove(&BackendKey::from(*choices.choose(&BACKENDS)?))),
        _ => {
            config.listeners.clear();
            let name = *choices.choose(&TABLES)?;
            put_listener(config, name, name);
        }
    }
    Ok(())
}

fn key(choices: &mut Unstructured<'_>) -> Result<HostKey> {
    let suffix = *choices.choose(&SUFFIXES)?;
    let host = match choices.int_in_range(0..=6)? {
        0..=2 => HostPattern::Exact(suffix.into()),
        3 | 4 => HostPattern::Wildcard { suffix: suffix.into(), span: WildcardSpan::OneLabel },
        5 => HostPattern::Wildcard { suffix: suffix.into(), span: WildcardSpan::ManyLabels },
        _ => HostPattern::Any,
    };
    Ok(HostKey { table: (*choices.choose(&TABLES)?).into(), host })
}

fn virtual_host(choices: &mut Unstructured<'_>) -> Result<VirtualHost> {
    Ok(VirtualHost {
        key: key(choices)?,
        order: *choices.choose(&[RuleOrder::Precedence, RuleOrder::Precedence, RuleOrder::Listed])?,
        path_form: *choices.choose(&[PathForm::Normalised, PathForm::Decoded])?,
        routes: several(choices, 0..=3, a_route)?,
        certificate: None,
        clients: None,
        suites: None,
        falls_through: choices.arbitrary()?,
    })
}

fn several<T>(
    choices: &mut Unstructured<'_>,
    count: std::ops::RangeInclusive<u8>,
    make: fn(&mut Unstructured<'_>) -> Result<T>,
) -> Result<Vec<T>> {
    (0..choices.int_in_range(count)?).map(|_| make(choices)).collect()
}

fn a_route(choices: &mut Unstructured<'_>) -> Result<Arc<Route>> {
    let created = *choices.choose(&[None, Some(0), Some(1)])?;
    Ok(tables::route(choices.choose(&["n0", "n1"])?, created, several(choices, 0..=3, a_rule)?))
}

fn a_rule(choices: &mut Unstructured<'_>) -> Result<Rule> {
    let backends = several(choices, 0..=2, |choices| {
        let backend = (*choices.choose(&BACKENDS)?).into();
        Ok(WeightedBackend::new(backend, choices.int_in_range(0..=2)?))
    })?;
    let matches = several(choices, 1..=3, a_match)?;
    Ok(Rule { action: Action::Forward(backends), ..rule("r", matches) })
}

fn a_match(choices: &mut Unstructured<'_>) -> Result<Match> {
    let path = match choices.int_in_range(0..=6)? {
        0 | 1 => PathMatch::Exact(path(choices)?.into()),
        2..=5 => PathMatch::Prefix(path(choices)?.into()),
        _ => PathMatch::Regex {
            pattern: (*choices.choose(&PATTERNS)?).into(),
            ignore_case: choices.arbitrary()?,
        },
    };
    let method = choices.choose(&[None, None, Some("GET"), Some("PUT")])?.map(Arc::from);
    let headers = several(choices, 0..=2, |choices| field(choices, ["x", "y"]))?;
    let query = several(choices, 0..=2, |choices| field(choices, ["q", "r"]))?;
    Ok(Match { path, method, headers, query, ..Match::default() })
}

fn field(choices: &mut Unstructured<'_>, names: [&str; 2]) -> Result<NamedValueMatch> {
    let value = match choices.ratio(3, 4)? {
        true => TextMatch::Exact((*choices.choose(&["1", "2", "1 2", ""])?).into()),
        false => TextMatch::Regex((*choices.choose(&["[12]", "1.*", "("])?).into()),
    };
    Ok(NamedValueMatch { name: (*choices.choose(&names)?).into(), value })
}

fn path(choices: &mut Unstructured<'_>) -> Result<String> {
    if choices.ratio(1, 8)? {
        return Ok((*choices.choose(&["/", "*", "", "a/b"])?).to_owned());
    }
    let elements = several(choices, 1..=4, |choices| choices.choose(&ELEMENTS).copied())?;
    Ok(format!("/{}{}", elements.join("/"), if choices.arbitrary()? { "/" } else { "" }))
}

fn arbitrary_request(choices: &mut Unstructured<'_>) -> Result<Ask> {
    let header = |choices: &mut Unstructured<'_>| {
        Ok((
            (*choices.choose(&["x", "y"])?).to_owned(),
            (*choices.choose(&["1", "2", "1 2", ""])?).to_owned(),
        ))
    };
    let normalised = path(choices)?;
    let decoded = if choices.ratio(3, 4)? { normalised.clone() } else { path(choices)? };
    Ok(Ask {
        host: (*choices.choose(&NAMES)?).to_owned(),
        method: (*choices.choose(&["GET", "PUT", "get"])?).to_owned(),
        normalised,
        decoded,
        query: (*choices.choose(&QUERIES)?).to_owned(),
        fields: TestFields(several(choices, 0..=2, header)?),
    })
}
