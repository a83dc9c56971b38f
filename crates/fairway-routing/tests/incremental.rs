//! What a compilation shares with the previous snapshot, and which ids stay stable.

use std::num::NonZeroU32;
use std::sync::Arc;

use fairway_model::{
    Action, BackendKey, BackendTraffic, Config, Forwarding, HeaderEdit, HeaderField, Mirror, MirrorTarget,
    PathRewrite, Phases, RequestEdit, ResponseEdit, ResponseHandling, RouteFilters, Rule, WeightedBackend,
};
use fairway_routing::{CompiledHost, RequestStep, ResponseStep, RuleId, Snapshot, Targets, compile};

use crate::tables::*;

fn two_hosts() -> Config {
    let host_with = |name: &str| host(name, vec![route("r", None, vec![rule(name, vec![prefix("/")])])]);
    let mut config = config(vec![host_with("a.test"), host_with("b.test")]);
    put_backend(&mut config, "a.test", 1);
    put_backend(&mut config, "b.test", 1);
    config
}

fn compiled_host<'s>(snapshot: &'s Snapshot, name: &str) -> &'s CompiledHost {
    let table = snapshot.table(TABLE).expect("a listener names the table");
    snapshot.host(table, name).expect("the host was put there")
}

fn id(snapshot: &Snapshot, name: &str) -> RuleId {
    compiled_host(snapshot, name).rules()[0].id()
}

#[test]
fn versions_count_up_from_one() {
    let first = compile(&Config::default(), None).snapshot;
    let second = compile(&Config::default(), Some(&first)).snapshot;
    assert_eq!((first.version(), second.version()), (1, 2));
}

#[test]
fn only_a_host_that_changed_is_compiled_again() {
    let mut config = two_hosts();
    let first = compile(&config, None).snapshot;
    put(&mut config, host("a.test", vec![route("r", None, vec![rule("new", vec![prefix("/")])])]));
    let second = compile(&config, Some(&first)).snapshot;
    assert!(std::ptr::eq(compiled_host(&first, "b.test"), compiled_host(&second, "b.test")));
    assert_eq!(id(&first, "b.test"), id(&second, "b.test"));
    assert_ne!(id(&first, "a.test"), id(&second, "a.test"));
    assert_eq!(winner(&second, &Ask::get("a.test", "/")), "new");
    assert_eq!(winner(&first, &Ask::get("a.test", "/")), "a.test");
}

#[test]
fn an_equal_configuration_changes_nothing() {
    let first = compile(&two_hosts(), None).snapshot;
    let second = compile(&two_hosts(), Some(&first)).snapshot;
    let slot = first.slot(&"a.test".into()).unwrap();
    assert_eq!(id(&first, "a.test"), id(&second, "a.test"));
    assert!(Arc::ptr_eq(first.backend(slot).unwrap(), second.backend(slot).unwrap()));
}

#[test]
fn an_endpoint_change_keeps_slot_generation_and_hosts() {
    let mut config = two_hosts();
    let first = compile(&config, None).snapshot;
    put_backend(&mut config, "a.test", 3);
    let second = compile(&config, Some(&first)).snapshot;
    let slot = first.slot(&"a.test".into()).unwrap();
    assert_eq!(second.slot(&"a.test".into()), Some(slot));
    assert_eq!(first.generation(slot), second.generation(slot));
    assert_eq!(first.backend(slot).unwrap().endpoints.len(), 1);
    assert_eq!(second.backend(slot).unwrap().endpoints.len(), 3);
    assert_eq!(id(&first, "a.test"), id(&second, "a.test"));
}

#[test]
fn a_change_of_traffic_settings_is_a_new_value_in_the_same_slot() {
    let mut config = two_hosts();
    let first = compile(&config, None).snapshot;
    let slot = first.slot(&"a.test".into()).unwrap();
    let mut changed = (**first.backend(slot).unwrap()).clone();
    changed.traffic =
        BackendTraffic { in_flight: NonZeroU32::new(7), ..changed.traffic().clone() }.if_not_empty();
    config.backends.insert(changed.key.clone(), Arc::new(changed));
    let second = compile(&config, Some(&first)).snapshot;
    assert_eq!(
        (second.slot(&"a.test".into()), second.generation(slot)),
        (Some(slot), first.generation(slot))
    );
    assert_eq!(second.backend(slot).unwrap().traffic().in_flight, NonZeroU32::new(7));
    assert!(
        std::ptr::eq(compiled_host(&first, "a.test"), compiled_host(&second, "a.test")),
        "no host is compiled for it"
    );
    let other = first.slot(&"b.test".into()).unwrap();
    assert!(Arc::ptr_eq(first.backend(other).unwrap(), second.backend(other).unwrap()));
}

#[test]
fn a_backend_added_after_its_rule_is_found_through_the_rule() {
    let mut config = two_hosts();
    config.backends.remove(&BackendKey::from("a.test"));
    let first = compile(&config, None).snapshot;
    let slot = compiled_host(&first, "a.test").rules()[0].targets().pick(0).unwrap();
    assert!(first.backend(slot).is_none());
    put_backend(&mut config, "a.test", 2);
    let second = compile(&config, Some(&first)).snapshot;
    assert_eq!(second.backend(slot).unwrap().endpoints.len(), 2);
    assert_eq!(id(&first, "a.test"), id(&second, "a.test"));
}

#[test]
fn a_freed_slot_is_reused_with_another_generation() {
    let mut config = two_hosts();
    let first = compile(&config, None).snapshot;
    let slot = first.slot(&"a.test".into()).unwrap();
    let removed = config.hosts.keys().next().unwrap().clone();
    config.hosts.remove(&removed);
    config.backends.remove(&BackendKey::from("a.test"));
    let second = compile(&config, Some(&first)).snapshot;
    assert_eq!((second.slot(&"a.test".into()), second.slots()), (None, 2));
    assert!(second.backend(slot).is_none());
    put_backend(&mut config, "c", 1);
    let third = compile(&config, Some(&second)).snapshot;
    assert_eq!((third.slot(&"c".into()), third.slots()), (Some(slot), 2));
    assert_ne!(first.generation(slot), third.generation(slot));
    assert_eq!(first.backend(slot).unwrap().key, "a.test".into());
}

#[test]
fn a_slot_survives_moving_from_one_rule_to_another() {
    let mut config = two_hosts();
    config.backends.clear();
    let first = compile(&config, None).snapshot;
    put(&mut config, host("a.test", vec![]));
    put(&mut config, host("z.test", vec![route("r", None, vec![rule("a.test", vec![prefix("/")])])]));
    let second = compile(&config, Some(&first)).snapshot;
    let slot = first.slot(&"a.test".into()).unwrap();
    assert_eq!(second.slot(&"a.test".into()), Some(slot));
    assert_eq!(first.generation(slot), second.generation(slot));
}

#[test]
fn table_ids_stay_while_a_listener_or_a_host_names_the_table() {
    let mut config = two_hosts();
    put_listener(&mut config, "second", "second");
    let first = compile(&config, None).snapshot;
    config.listeners.remove("http");
    let second = compile(&config, Some(&first)).snapshot;
    assert_eq!(second.table(TABLE), first.table(TABLE));
    config.hosts.clear();
    let third = compile(&config, Some(&second)).snapshot;
    assert_eq!(third.table(TABLE), None);
    assert_eq!(third.table("second"), first.table("second"));
    put_listener(&mut config, "third", "third");
    let fourth = compile(&config, Some(&third)).snapshot;
    assert_eq!(fourth.table("third"), first.table(TABLE), "a vacant id is used again");
}

#[test]
fn problems_are_reported_until_they_are_solved() {
    let mut config = two_hosts();
    put(&mut config, host("bad.test", vec![route("r", None, vec![rule("bad", vec![regex("(")])])]));
    let first = compile(&config, None);
    put_backend(&mut config, "a.test", 5);
    let second = compile(&config, Some(&first.snapshot));
    assert_eq!((first.problems.len(), &second.problems), (1, &first.problems));
    put(&mut config, host("bad.test", vec![]));
    assert_eq!(compile(&config, Some(&second.snapshot)).problems, []);
}

#[test]
fn a_rule_with_an_invalid_rewrite_sends_nothing_to_its_backend() {
    let mut bad = rule("bad", vec![prefix("/")]);
    let rewrite = PathRewrite::Regex { pattern: "(".into(), replacement: "/".into(), ignore_case: true };
    let forwarding = Forwarding { path: Some(rewrite), ..Forwarding::default() };
    bad.phases = Phases::from(forwarding).shared();
    let compiled = compile(&config(vec![host("a.test", vec![route("r", None, vec![bad])])]), None);
    assert!(
        compiled.problems[0].text.ends_with("requests of this rule are answered 500"),
        "{:?}",
        compiled.problems
    );
    let rule = &compiled_host(&compiled.snapshot, "a.test").rules()[0];
    assert!(matches!(rule.targets(), Targets::None));
    assert!(rule.rewrite().is_none());
}

#[test]
fn weights_become_shares() {
    let mut weighted = rule("w", vec![prefix("/")]);
    let share = |backend: &str, weight| WeightedBackend::new(backend.into(), weight);
    weighted.action = Action::Forward(vec![share("a", 3), share("none", 0), share("b", 1)]);
    let snapshot =
        compile(&config(vec![host("a.test", vec![route("r", None, vec![weighted])])]), None).snapshot;
    let targets = compiled_host(&snapshot, "a.test").rules()[0].targets();
    let (a, b) = (snapshot.slot(&"a".into()), snapshot.slot(&"b".into()));
    assert_eq!((targets.pick(0), targets.pick(u32::MAX / 4 * 3)), (a, a));
    assert_eq!((targets.pick(u32::MAX / 4 * 3 + 4), targets.pick(u32::MAX)), (b, b));
    assert_eq!(snapshot.slot(&"none".into()), None);
}

fn edit(name: &str) -> HeaderEdit {
    HeaderEdit { set: vec![HeaderField { name: name.into(), value: "1".into() }], ..HeaderEdit::default() }
}

/// Three shares: one with filters, an invalid one, and an ordinary one.
fn three_shares(filters: RouteFilters) -> Config {
    let mut rule = rule("w", vec![prefix("/")]);
    let request = vec![RequestEdit::Host("rule.test".into())];
    rule.phases = Phases { request, ..answering("X-Rule") }.shared();
    rule.action = Action::Forward(vec![
        WeightedBackend { filters: Some(Box::new(filters)), ..WeightedBackend::new("a".into(), 1) },
        WeightedBackend::invalid("gone".into(), 1),
        WeightedBackend::new("b".into(), 2),
    ]);
    config(vec![host("a.test", vec![route("r", None, vec![rule])])])
}

/// Sets a response header.
fn answering(name: &str) -> Phases {
    let edits = vec![ResponseEdit::Headers(edit(name))];
    Phases { answers: ResponseHandling { edits, ..ResponseHandling::default() }, ..Phases::default() }
}

fn mirror() -> Mirror {
    Mirror {
        backend: "copy".into(),
        numerator: 1,
        denominator: 1,
        max_body: 0,
        target: MirrorTarget::Forwarded,
        host: None,
    }
}

#[test]
fn rules_with_equal_phases_share_their_steps_unless_they_forward_by_rule() {
    let of_one_rule = |name: &str, phases: Phases| {
        let rule = Rule { phases: Arc::new(phases), ..rule(name, vec![prefix("/")]) };
        host(name, vec![route("r", None, vec![rule])])
    };
    let mirrored = || {
        let forwarding = Forwarding { mirrors: vec![mirror()], ..Forwarding::default() };
        Phases::from(forwarding)
    };
    let hosts = vec![
        of_one_rule("a.test", answering("X-A")),
        of_one_rule("b.test", answering("X-A")),
        of_one_rule("c.test", answering("X-C")),
        of_one_rule("d.test", mirrored()),
        of_one_rule("e.test", mirrored()),
    ];
    let snapshot = compile(&config(hosts), None).snapshot;
    let steps = |name: &str| compiled_host(&snapshot, name).rules()[0].steps();
    let share_steps = |left: &str, other: &str| std::ptr::eq(steps(left), steps(other));
    assert!(share_steps("a.test", "b.test"));
    assert!(!share_steps("b.test", "c.test") && !share_steps("d.test", "e.test"));
}

#[test]
fn shares_have_their_own_steps_if_one_has_filters_or_is_invalid() {
    let filters = RouteFilters {
        request: vec![RequestEdit::Headers(edit("X-Own"))],
        mirrors: vec![mirror()],
        reply: vec![edit("X-Own")],
        ..RouteFilters::default()
    };
    let mut config = three_shares(filters);
    let first = compile(&config, None).snapshot;
    let slot = |snapshot: &Snapshot, name: &str| snapshot.slot(&name.into());
    assert_eq!(slot(&first, "gone"), None);
    let rule = &compiled_host(&first, "a.test").rules()[0];
    let Targets::Shares(shares) = rule.targets() else { panic!("one has filters") };
    let quarter = |n: u32| shares.pick(n << 30);
    let (a, b) = (quarter(0).unwrap(), quarter(2).unwrap());
    assert!(quarter(1).is_none());
    assert_eq!((a.targets().pick(7), b.targets().pick(7)), (slot(&first, "a"), slot(&first, "b")));
    assert!(matches!(*a.steps().request, [RequestStep::Edit(_)]), "the host was set by the whole rule");
    let edited = |step: &ResponseStep| match step {
        ResponseStep::Edit(edits) => {
            edits.set.iter().map(|field| String::from_utf8_lossy(field.name)).collect::<String>()
        }
        _ => String::new(),
    };
    assert_eq!(a.steps().responses.edits.iter().map(edited).collect::<Vec<_>>(), ["X-Own", "X-Rule"]);
    assert_eq!(b.steps().responses.edits.iter().map(edited).collect::<Vec<_>>(), ["X-Rule"]);
    assert_eq!(a.steps().forwarding.mirrors[0].rule.targets().pick(7), slot(&first, "copy"));
    config.hosts.clear();
    let second = compile(&config, Some(&first)).snapshot;
    for name in ["a", "b", "copy"] {
        assert_eq!(slot(&second, name), None, "{name}");
    }
}

#[test]
fn a_snapshot_can_be_shared_between_threads() {
    fn shared<T: Send + Sync>() {}
    shared::<Snapshot>();
}
