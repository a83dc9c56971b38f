//! The replicas of the fleet, and whether they serve the same configuration.

use serde::Serialize;

use super::inspector::{FleetReplicas, KnownReplicas, Replica};
use crate::pipeline::{Freshness, View};

/// The replicas on the first page.
#[derive(Serialize)]
pub(super) struct ReplicasView {
    summary: String,
    is_trouble: bool,
    /// Empty if this replica is alone.
    rows: Vec<ReplicaRow>,
}

#[derive(Serialize)]
struct ReplicaRow {
    name: String,
    digest: String,
    state: String,
    is_trouble: bool,
}

/// Compares the replicas with `view`, which this replica serves.
pub(super) fn replicas_view(replicas: &FleetReplicas, view: Option<&View>) -> ReplicasView {
    match replicas {
        FleetReplicas::Alone => ReplicasView {
            summary: "This is the only one: a process with --manifests reads its own files.".to_owned(),
            is_trouble: false,
            rows: Vec::new(),
        },
        FleetReplicas::Unknown(reason) => ReplicasView {
            summary: format!("The other replicas are unknown: {reason}."),
            is_trouble: false,
            rows: Vec::new(),
        },
        FleetReplicas::Others(others) => compare_replicas(others, view),
    }
}

fn compare_replicas(others: &KnownReplicas, view: Option<&View>) -> ReplicasView {
    let own_digest = view.map(|view| view.outcome.digest.to_string()).unwrap_or_default();
    let mut rows = vec![ReplicaRow {
        name: format!("{} (this one)", others.own_name),
        digest: own_digest.clone(),
        state: own_state(view).to_owned(),
        is_trouble: false,
    }];
    rows.extend(others.replicas.iter().map(|replica| row(replica, &own_digest)));
    let served = others.replicas.iter().filter_map(|replica| replica.served.as_ref().ok());
    let different = served.filter(|served| served.digest != own_digest).count();
    let silent = others.replicas.iter().filter(|replica| replica.served.is_err()).count();
    let all = others.replicas.len() + 1;
    let mut summary = match (all, different) {
        (1, _) => "There is one.".to_owned(),
        (_, 0) if silent == 0 => format!("All {all} serve the same configuration."),
        (_, 0) => format!("{} of {all} serve the same configuration.", all - silent),
        _ => format!(
            "{different} of {all} serve another configuration than this one. That is usual for a moment after a change."
        ),
    };
    if silent > 0 {
        summary.push_str(&format!(" {silent} did not say what they serve."));
    }
    if others.unasked > 0 {
        summary.push_str(&format!(" {} more were not queried.", others.unasked));
    }
    ReplicasView { summary, is_trouble: different > 0 || silent > 0, rows }
}

fn own_state(view: Option<&View>) -> &'static str {
    match view.map(|view| view.freshness) {
        None => "has no configuration yet",
        Some(Freshness::Current) => "serves it",
        Some(Freshness::Stale) => "serves the last good configuration of an earlier process",
    }
}

fn row(replica: &Replica, own_digest: &str) -> ReplicaRow {
    let (digest, state, is_trouble) = match &replica.served {
        Err(reason) => (String::new(), reason.clone(), true),
        Ok(served) => {
            let state = match (served.digest == own_digest, served.freshness, served.adopted) {
                (_, Freshness::Stale, _) => "serves the last good configuration of an earlier process",
                (_, _, false) => "is still adopting it",
                (true, _, true) => "serves the same",
                (false, _, true) => "serves another one",
            };
            (served.digest.clone(), state.to_owned(), served.digest != own_digest)
        }
    };
    ReplicaRow { name: replica.name.clone(), digest, state, is_trouble }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admin::served::ServedConfig;

    fn replica(name: &str, digest: Option<&str>) -> Replica {
        let served = digest.map(|digest| ServedConfig {
            digest: digest.to_owned(),
            version: 3,
            adopted: true,
            freshness: Freshness::Current,
            ingress: None,
            object: None,
            gateways: None,
        });
        Replica { name: name.to_owned(), served: served.ok_or_else(|| "no answer within 0.5 s".to_owned()) }
    }

    /// For a replica that serves nothing and has an empty digest.
    fn summary(replicas: Vec<Replica>) -> (String, bool) {
        let others = KnownReplicas { own_name: "web-0".to_owned(), replicas, unasked: 0 };
        let shown = replicas_view(&FleetReplicas::Others(others), None);
        (shown.summary, shown.is_trouble)
    }

    #[test]
    fn replicas_agree_differ_or_do_not_respond() {
        assert_eq!(summary(Vec::new()), ("There is one.".to_owned(), false));
        let same = || replica("web-1", Some(""));
        assert_eq!(summary(vec![same()]), ("All 2 serve the same configuration.".to_owned(), false));
        let (text, is_trouble) = summary(vec![same(), replica("web-2", Some("other"))]);
        assert!(text.starts_with("1 of 3 serve another configuration than this one.") && is_trouble);
        let (text, is_trouble) = summary(vec![same(), replica("web-2", None)]);
        assert_eq!(text, "2 of 3 serve the same configuration. 1 did not say what they serve.");
        assert!(is_trouble);
    }
}
