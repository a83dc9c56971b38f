//! What the model can express and is not supported yet is refused or reported, never ignored silently.

use std::sync::Arc;

use fairway_model::{ClientCertificateMode, ClientVerification, Config, Match};
use fairway_routing::{Matched, Snapshot, Targets, compile};

use crate::tables::*;

/// A catch-all rule on `a.test` with the backend `back`.
fn config_with_match(edit: impl FnOnce(&mut Match)) -> Config {
    let mut rule = rule("back", vec![prefix("/")]);
    edit(&mut rule.matches[0]);
    let mut config = config(vec![host("a.test", vec![route("r", None, vec![rule])])]);
    put_backend(&mut config, "back", 1);
    config
}

/// Where a request for `a.test` goes, if a rule matches.
fn targets(snapshot: &Snapshot) -> Option<Targets> {
    match snapshot.lookup(snapshot.table(TABLE).unwrap(), &Ask::get("a.test", "/").request()) {
        Matched::Rule { rule, .. } => Some(rule.targets().clone()),
        Matched::NoRule(_) | Matched::NoHost => None,
    }
}

fn only_problem(config: &Config) -> (Arc<Snapshot>, String) {
    let compiled = compile(config, None);
    let again = compile(config, Some(&compiled.snapshot));
    assert_eq!(again.problems, compiled.problems, "it is said for as long as it is so");
    let [problem] = &compiled.problems[..] else { panic!("{:?}", compiled.problems) };
    (compiled.snapshot, problem.to_string())
}

#[test]
fn a_host_that_verifies_clients_forwards_nothing_by_unverified_rules() {
    let mut config = config_with_match(|_| ());
    let mut host = (**config.hosts.values().next().unwrap()).clone();
    host.clients = Some(Arc::new(ClientVerification {
        roots: "".into(),
        revoked: "".into(),
        depth: None,
        demand: ClientCertificateMode::Required,
    }));
    put(&mut config, host);
    let (snapshot, problem) = only_problem(&config);
    assert!(matches!(targets(&snapshot), Some(Targets::None)));
    assert!(
        problem.ends_with(
            "its host verifies clients, and this rule does not; requests of this rule are answered 500"
        ),
        "{problem}"
    );
}
