//! After any sequence of events, the objects that were sent equal the wanted objects of the server.

use std::collections::BTreeSet;
use std::time::Duration;

use fairway_objects::object::Kind;
use fairway_testkit::api_server::{ApiServer, Failure, Network};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::harness::{Harness, class, ingress, lists, requests_in, secret, service, slice};
use crate::source::selection::Selection;

#[derive(Clone, Debug)]
enum Step {
    Ingress(u8, u8, Vec<u8>),
    /// Of this controller only if the class `edge` exists.
    Foreign(u8, u8, u8),
    Secret(u8, u8),
    Service(u8, u8),
    Slice(u8, u8),
    Class,
    NoIngress(u8, u8),
    NoSecret(u8, u8),
    NoService(u8, u8),
    NoSlice(u8, u8),
    NoClass,
    CloseWatches,
    StallWatches,
    ForgetHistory,
    BreakSecretLists,
    DenySecrets(u8),
    Outage(bool),
    Heal,
    Pass(u16),
}

fn step() -> impl Strategy<Value = Step> {
    let at = || (0..2_u8, 0..3_u8);
    prop_oneof![
        4 => (at(), prop::collection::vec(0..3_u8, 0..3)).prop_map(|((a, b), c)| Step::Ingress(a, b, c)),
        1 => (at(), 0..3_u8).prop_map(|((a, b), c)| Step::Foreign(a, b, c)),
        4 => at().prop_map(|(a, b)| Step::Secret(a, b)),
        1 => at().prop_map(|(a, b)| Step::Service(a, b)),
        1 => at().prop_map(|(a, b)| Step::Slice(a, b)),
        1 => Just(Step::Class),
        2 => at().prop_map(|(a, b)| Step::NoIngress(a, b)),
        2 => at().prop_map(|(a, b)| Step::NoSecret(a, b)),
        1 => at().prop_map(|(a, b)| Step::NoService(a, b)),
        1 => at().prop_map(|(a, b)| Step::NoSlice(a, b)),
        1 => Just(Step::NoClass),
        1 => Just(Step::CloseWatches),
        1 => Just(Step::StallWatches),
        1 => Just(Step::ForgetHistory),
        1 => Just(Step::BreakSecretLists),
        1 => (0..2_u8).prop_map(Step::DenySecrets),
        1 => any::<bool>().prop_map(Step::Outage),
        3 => Just(Step::Heal),
        5 => (0..3000_u16).prop_map(Step::Pass),
    ]
}

const NAMESPACES: [&str; 2] = ["shop", "bank"];
const NAMES: [&str; 3] = ["a", "b", "c"];

async fn play(steps: &[Step]) -> (ApiServer, Harness) {
    let server = ApiServer::new();
    let mut harness = Harness::start(&server, Selection::default());
    for (number, step) in steps.iter().enumerate() {
        if let Step::Pass(milliseconds) = step {
            harness.pass(Duration::from_millis((*milliseconds).into())).await;
        } else {
            happen(&server, number, step);
        }
    }
    disturb(&server, &Step::Heal);
    harness.pass(Duration::from_secs(150)).await;
    (server, harness)
}

fn happen(server: &ApiServer, number: usize, step: &Step) {
    let at = |namespace: &u8, name: &u8| (NAMESPACES[usize::from(*namespace)], NAMES[usize::from(*name)]);
    match step {
        Step::Ingress(namespace, name, secrets) => {
            let secrets: Vec<_> = secrets.iter().map(|name| NAMES[usize::from(*name)]).collect();
            let (namespace, name) = at(namespace, name);
            server.put("ingresses", ingress(namespace, name, &secrets));
        }
        Step::Foreign(namespace, name, secret) => {
            let (namespace, name) = at(namespace, name);
            let mut foreign = ingress(namespace, name, &[NAMES[usize::from(*secret)]]);
            foreign["spec"]["ingressClassName"] = json!("edge");
            server.put("ingresses", foreign);
        }
        Step::Secret(a, b) => server.put("secrets", secret(at(a, b).0, at(a, b).1)),
        Step::Service(a, b) => server.put("services", service(at(a, b).0, at(a, b).1)),
        Step::Slice(a, b) => {
            let mut slice = slice(at(a, b).0, at(a, b).1);
            slice["endpoints"][0]["addresses"][0] = json!(format!("10.0.1.{number}"));
            server.put("endpointslices", slice);
        }
        Step::Class => server.put("ingressclasses", class("edge")),
        Step::NoIngress(a, b) => server.delete("ingresses", at(a, b).0, at(a, b).1),
        Step::NoSecret(a, b) => server.delete("secrets", at(a, b).0, at(a, b).1),
        Step::NoService(a, b) => server.delete("services", at(a, b).0, at(a, b).1),
        Step::NoSlice(a, b) => server.delete("endpointslices", at(a, b).0, at(a, b).1),
        Step::NoClass => server.delete("ingressclasses", "", "edge"),
        other => disturb(server, other),
    }
}

fn disturb(server: &ApiServer, step: &Step) {
    match step {
        Step::CloseWatches => server.close_watches(),
        Step::StallWatches => server.stall_watches(),
        Step::ForgetHistory => server.forget_history(),
        Step::BreakSecretLists => server.fail(Failure::Broken, lists("secrets")),
        Step::DenySecrets(namespace) => {
            server.fail(Failure::Forbidden, requests_in("secrets", NAMESPACES[usize::from(*namespace)]));
            server.close_watches();
        }
        Step::Outage(silent) => {
            server.set_network(if *silent { Network::Silent } else { Network::Refusing });
            if !silent {
                server.close_watches();
            }
        }
        _ => {
            server.heal();
            server.set_network(Network::Up);
        }
    }
}

/// The Secrets, as `namespace/name`, that Ingresses of these classes reference.
fn named_secrets(server: &ApiServer, served: impl Fn(&str) -> bool) -> BTreeSet<String> {
    let mut named = BTreeSet::new();
    for ingress in server.objects("ingresses") {
        if served(ingress["spec"]["ingressClassName"].as_str().unwrap_or_default()) {
            let namespace = ingress["metadata"]["namespace"].as_str().unwrap_or_default();
            let tls = ingress["spec"]["tls"].as_array().into_iter().flatten();
            named.extend(tls.filter_map(|tls| Some(format!("{namespace}/{}", tls["secretName"].as_str()?))));
        }
    }
    named
}

/// The slices as `namespace/name@address`.
fn slices(server: &ApiServer) -> BTreeSet<String> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let name = |slice: &Value| {
        let address = text(&slice["endpoints"][0]["addresses"][0]);
        format!("{}/{}@{address}", text(&slice["metadata"]["namespace"]), text(&slice["metadata"]["name"]))
    };
    server.objects("endpointslices").iter().map(name).collect()
}

/// The existing Secrets that an Ingress of this controller references.
fn wanted_secrets(server: &ApiServer) -> BTreeSet<String> {
    let ours_too = !server.names("ingressclasses").is_empty();
    let named = named_secrets(server, |class| class == "fairway" || ours_too);
    let exists = |secret: &String| named.contains(secret.split_once('@').unwrap().0);
    server.names("secrets").into_iter().filter(exists).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_interleaving_ends_in_the_state_of_the_server(steps in prop::collection::vec(step(), 1..40)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
        let (server, harness) = runtime.block_on(play(&steps));
        prop_assert_eq!(harness.names(Kind::Ingress), server.names("ingresses"));
        prop_assert_eq!(harness.names(Kind::Service), server.names("services"));
        prop_assert_eq!(harness.names(Kind::EndpointSlice), slices(&server));
        prop_assert_eq!(harness.names(Kind::IngressClass), server.names("ingressclasses"));
        prop_assert_eq!(harness.names(Kind::Secret), wanted_secrets(&server));
        prop_assert!(harness.condition().is_synced(), "{:#?}", harness.condition());
    }
}
