//! Lookup, explanation and incremental compilation compared with the slow, obvious matcher, over generated tables with
//! small alphabets that make collisions likely.

use std::collections::BTreeSet;
use std::sync::Arc;

use fairway_model::{
    Action, BackendKey, Config, HostKey, HostPattern, Match, NamedValueMatch, PathForm, PathMatch, Route,
    Rule, RuleOrder, TextMatch, VirtualHost, WeightedBackend, WildcardSpan,
};
use fairway_routing::oracle::{self, OracleMatch};
use fairway_routing::{BackendSlot, HostVerdict, MatchVerdict, Snapshot, compile};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;

use crate::tables::*;

const TABLES: [&str; 2] = ["one", "two"];
const NAMES: [&str; 9] = ["", "c", "b.c", "a.b.c", "x.b.c", "x.y.b.c", "y.c", ".b.c", "d"];
const BACKENDS: [&str; 5] = ["b0", "b1", "b2", "b3", "b4"];

#[derive(Clone, Debug)]
enum Edit {
    Put(VirtualHost),
    RemoveHost(HostKey),
    PutBackend(&'static str, u16),
    RemoveBackend(&'static str),
    Listen(Vec<&'static str>),
}

fn paths() -> impl Strategy<Value = String> {
    // Two elements that differ only near the end.
    let elements = vec!["a", "b", "aa", "", "a", "b", "a-long-path-element-1", "a-long-path-element-2"];
    let deep = (vec(select(elements), 1..4), any::<bool>())
        .prop_map(|(elements, slash)| format!("/{}{}", elements.join("/"), if slash { "/" } else { "" }));
    prop_oneof![8 => deep, 1 => select(vec!["/", "*", "", "a/b"]).prop_map(str::to_owned)]
}

fn path_matches() -> impl Strategy<Value = PathMatch> {
    let patterns = select(vec!["/a", "/a.*", "/[ab]+", "/(a|b)/a", "/b?/a", "/A{1,2}", ".*", "/a|/b", "/a("]);
    prop_oneof![
        2 => paths().prop_map(|path| PathMatch::Exact(path.into())),
        4 => paths().prop_map(|path| PathMatch::Prefix(path.into())),
        1 => (patterns, any::<bool>())
            .prop_map(|(pattern, ignore_case)| PathMatch::Regex { pattern: pattern.into(), ignore_case }),
    ]
}

fn fields(names: &'static [&'static str]) -> impl Strategy<Value = Vec<NamedValueMatch>> {
    let value = prop_oneof![
        4 => select(vec!["1", "2", "1 2"]).prop_map(|text| TextMatch::Exact(text.into())),
        1 => select(vec!["[12]", "1.*", "("]).prop_map(|text| TextMatch::Regex(text.into())),
    ];
    let header =
        (select(names), value).prop_map(|(name, value)| NamedValueMatch { name: name.into(), value });
    prop_oneof![3 => Just(Vec::new()), 1 => vec(header, 1..3)]
}

fn matches() -> impl Strategy<Value = Match> {
    let method = option::weighted(0.25, select(vec!["GET", "PUT"]).prop_map(Arc::from));
    let rank = prop_oneof![4 => Just(0), 1 => 1u8..3];
    let fields = (fields(&["x", "y"]), fields(&["q", "r"]), fields(&["c", "d"]));
    (path_matches(), method, fields, rank, any::<bool>()).prop_map(
        |(path, method, (headers, query, cookies), rank, after_prefixes)| Match {
            path,
            method,
            headers,
            query,
            cookies,
            rank,
            after_prefixes,
        },
    )
}

fn rules() -> impl Strategy<Value = Rule> {
    let backends = vec((select(&BACKENDS), 0u32..3), 0..3);
    (vec(matches(), 1..4), backends).prop_map(|(matches, backends)| {
        let weighted = |(name, weight): (&str, u32)| WeightedBackend::new(name.into(), weight);
        Rule { action: Action::Forward(backends.into_iter().map(weighted).collect()), ..rule("r", matches) }
    })
}

fn routes() -> impl Strategy<Value = Arc<Route>> {
    (select(vec!["n0", "n1"]), option::of(0i64..3), vec(rules(), 0..4))
        .prop_map(|(name, created, rules)| route(name, created, rules))
}

fn keys() -> impl Strategy<Value = HostKey> {
    let span = prop_oneof![Just(WildcardSpan::OneLabel), Just(WildcardSpan::ManyLabels)];
    let wild = (select(vec!["c", "b.c", "y.b.c"]), span)
        .prop_map(|(suffix, span)| HostPattern::Wildcard { suffix: suffix.into(), span });
    let exact = select(vec!["c", "b.c", "a.b.c", "x.b.c"]).prop_map(|name| HostPattern::Exact(name.into()));
    let host = prop_oneof![3 => exact, 3 => wild, 1 => Just(HostPattern::Any)];
    (select(&TABLES), host).prop_map(|(table, host)| HostKey { table: table.into(), host })
}

fn hosts() -> impl Strategy<Value = VirtualHost> {
    let order = prop_oneof![3 => Just(RuleOrder::Precedence), 1 => Just(RuleOrder::Listed)];
    let path_form = prop_oneof![Just(PathForm::Normalised), Just(PathForm::Decoded)];
    (keys(), order, path_form, vec(routes(), 0..4), any::<bool>()).prop_map(
        |(key, order, path_form, routes, falls_through)| VirtualHost {
            key,
            order,
            path_form,
            routes,
            certificate: None,
            clients: None,
            suites: None,
            falls_through,
        },
    )
}

fn edits() -> impl Strategy<Value = Edit> {
    prop_oneof![
        6 => hosts().prop_map(Edit::Put),
        2 => keys().prop_map(Edit::RemoveHost),
        2 => (select(&BACKENDS), 0u16..3).prop_map(|(name, endpoints)| Edit::PutBackend(name, endpoints)),
        1 => select(&BACKENDS).prop_map(Edit::RemoveBackend),
        1 => vec(select(&TABLES), 0..3).prop_map(Edit::Listen),
    ]
}

fn request_strategy() -> impl Strategy<Value = Ask> {
    let values = select(vec!["1", "2", "1 2"]).prop_map(str::to_owned);
    let header = (select(vec!["x", "y"]).prop_map(str::to_owned), values);
    let cookies = select(vec!["c=1", "d=1 2; c=2", "c=; d=1", "cc=1;c=1 2", "c"]);
    let cookies = cookies.prop_map(|line| ("cookie".to_owned(), line.to_owned()));
    let header = prop_oneof![2 => header, 1 => cookies];
    let queries = select(vec!["", "q=1", "q=1&r=2", "r=1%202", "q=1+2&r=1", "%71=2"]);
    (select(&NAMES), select(vec!["GET", "PUT"]), paths(), paths(), queries, vec(header, 0..3)).prop_map(
        |(host, method, normalised, decoded, query, headers)| Ask {
            host: host.to_owned(),
            method: method.to_owned(),
            normalised,
            decoded,
            query: query.to_owned(),
            fields: TestFields(headers),
        },
    )
}

fn apply(config: &mut Config, edit: Edit) {
    match edit {
        Edit::Put(host) => put(config, host),
        Edit::RemoveHost(key) => drop(config.hosts.remove(&key)),
        Edit::PutBackend(name, endpoints) => put_backend(config, name, endpoints),
        Edit::RemoveBackend(name) => drop(config.backends.remove(&BackendKey::from(name))),
        Edit::Listen(tables) => {
            config.listeners.clear();
            tables.into_iter().for_each(|name| put_listener(config, name, name));
        }
    }
}

fn looked_up(snapshot: &Snapshot, table: &str, ask: &Ask) -> OracleMatch {
    snapshot
        .table(table)
        .map_or(OracleMatch::NoHost, |table| oracle_match(snapshot.lookup(table, &ask.request())))
}

/// The keys that the configuration contains or that a rule with a share names.
fn live(config: &Config) -> BTreeSet<BackendKey> {
    let rules = config.hosts.values().flat_map(|host| &host.routes).flat_map(|route| &route.rules);
    let named = rules.flat_map(|rule| match &rule.action {
        Action::Forward(backends) => {
            backends.iter().filter(|share| share.weight > 0).map(|share| share.backend.clone())
        }
        Action::FixedResponse(_) => unreachable!("none is generated"),
    });
    config.backends.keys().cloned().chain(named).collect()
}

fn assert_slots_are_valid(snapshot: &Snapshot, config: &Config) {
    let mut used = BTreeSet::new();
    for name in BACKENDS.map(BackendKey::from) {
        let slot = snapshot.slot(&name);
        assert_eq!(slot.is_some(), live(config).contains(&name), "{name}");
        if let Some(slot) = slot {
            assert!(used.insert(slot) && (slot.0 as usize) < snapshot.slots());
            assert_eq!(snapshot.backend(slot), config.backends.get(&name));
        }
    }
    for table in TABLES.iter().filter_map(|table| snapshot.table(table)) {
        for host in NAMES.iter().flat_map(|name| snapshot.covering(table, name)) {
            for rule in host.rules() {
                let Action::Forward(backends) = &rule.rule().action else {
                    unreachable!("none is generated")
                };
                let shares = backends.iter().filter(|share| share.weight > 0);
                let expected: Vec<_> = shares
                    .map(|share| snapshot.slot(&share.backend).expect("a named backend has a slot"))
                    .collect();
                assert_eq!(rule.targets().slots().collect::<Vec<_>>(), expected);
            }
        }
    }
}

fn assert_slots_are_stable(before: &Snapshot, after: &Snapshot) {
    for name in live(before.config()).intersection(&live(after.config())) {
        let slot = before.slot(name).expect("a live backend has a slot");
        assert_eq!(after.slot(name), Some(slot));
        assert_eq!(before.generation(slot), after.generation(slot));
    }
}

/// A worker may have skipped any number of snapshots.
fn assert_changes_are_found(before: &Snapshot, after: &Snapshot) {
    let backend_pointer = |snapshot: &Snapshot, slot| snapshot.backend(slot).map(Arc::as_ptr);
    let slots = (0..u32::try_from(after.slots()).expect("a few")).map(BackendSlot);
    let expected: Vec<_> =
        slots.filter(|slot| backend_pointer(before, *slot) != backend_pointer(after, *slot)).collect();
    assert_eq!(after.backends_changed_since(before).collect::<Vec<_>>(), expected);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_lookup_answers_what_the_oracle_does(hosts in vec(hosts(), 1..8), asks in vec(request_strategy(), 20)) {
        let mut config = Config::default();
        hosts.into_iter().for_each(|host| put(&mut config, host));
        let snapshot = compile(&config, None).snapshot;
        for (ask, table) in asks.iter().flat_map(|ask| TABLES.map(|table| (ask, table))) {
            let expected = oracle::find(&config, table, &ask.request());
            prop_assert_eq!(looked_up(&snapshot, table, ask), expected, "{:?}", ask);
        }
    }

    #[test]
    fn an_explanation_ends_where_the_lookup_does(hosts in vec(hosts(), 1..8), asks in vec(request_strategy(), 20)) {
        let mut config = Config::default();
        hosts.into_iter().for_each(|host| put(&mut config, host));
        let snapshot = compile(&config, None).snapshot;
        for (ask, name) in asks.iter().flat_map(|ask| TABLES.map(|table| (ask, table))) {
            let Some(table) = snapshot.table(name) else { continue };
            let explanation = snapshot.explain(table, &ask.request());
            let outcome = oracle_match(explanation.outcome);
            prop_assert_eq!(&outcome, &looked_up(&snapshot, name, ask), "{:?}", ask);
            let wins = explanation.hosts.iter().flat_map(|host| &host.matches);
            let wins = wins.filter(|step| step.verdict == MatchVerdict::Wins).count();
            let serves = explanation.hosts.iter().filter(|host| host.verdict == HostVerdict::Serves).count();
            let expected = usize::from(matches!(outcome, OracleMatch::Rule { .. }));
            prop_assert_eq!((wins, serves), (expected, expected));
        }
    }

    #[test]
    fn an_incremental_compile_equals_one_from_scratch(
        steps in vec(vec(edits(), 1..4), 1..8),
        asks in vec(request_strategy(), 10),
    ) {
        let mut config = Config::default();
        let mut snapshot = compile(&config, None).snapshot;
        let mut older = vec![Arc::clone(&snapshot)];
        for step in steps {
            step.into_iter().for_each(|edit| apply(&mut config, edit));
            let next = compile(&config, Some(&snapshot));
            let scratch = compile(&config, None);
            prop_assert_eq!(&next.problems, &scratch.problems);
            prop_assert_eq!(next.snapshot.config(), &config);
            for (ask, table) in asks.iter().flat_map(|ask| TABLES.map(|table| (ask, table))) {
                prop_assert_eq!(next.snapshot.table(table).is_some(), scratch.snapshot.table(table).is_some());
                let responses = (looked_up(&next.snapshot, table, ask), looked_up(&scratch.snapshot, table, ask));
                prop_assert_eq!(&responses.0, &responses.1, "{:?}", ask);
            }
            assert_slots_are_valid(&next.snapshot, &config);
            assert_slots_are_stable(&snapshot, &next.snapshot);
            prop_assert!(next.snapshot.slots() <= 2 * BACKENDS.len(), "freed slots are used again");
            older.push(Arc::clone(&next.snapshot));
            older.iter().for_each(|older| assert_changes_are_found(older, &next.snapshot));
            snapshot = next.snapshot;
        }
    }
}
