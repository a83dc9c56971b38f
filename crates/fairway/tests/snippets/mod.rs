//! Replays the recorded responses of the real nginx to snippets against the real binary: `set/` has the snippets, README.md
//! describes the origin of the responses. Each snippet is served identically or refused as a whole; `outcome.txt` lists which, and
//! why.

mod set;

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;
use std::process::Command;

use fairway_echo::{EchoOptions, EchoServer, Identity};
use fairway_testkit::golden;
use fairway_testkit::manifests::{Manifests, config_map, ingress_class, service_with_endpoints};
use fairway_testkit::process::Fairway;
use serde_json::Value;

use crate::recorded::comparison::{Deviation, replay, send_case};
use set::{Outcome, Snippet};

const BINARY: &str = env!("CARGO_BIN_EXE_fairway");
const FLAGS: &[&str] = &["--ingress-class-compat", "--configmap", "ingress-nginx/ingress-nginx-controller"];

/// The users of basic auth.
const USERS: &str = "apiVersion: v1\nkind: Secret\nmetadata: {name: users, namespace: demo}\n\
    stringData: {auth: 'a:{PLAIN}b'}\n";

/// The outcome of a snippet.
enum SnippetOutcome {
    Served,
    /// With the reason.
    Refused(String),
    /// With the deviations from the recording.
    Different(Vec<String>),
}

#[tokio::test]
async fn every_snippet_is_served_as_by_nginx_or_refused() {
    let all = Snippet::all();
    assert!(all.len() >= 530);
    let (apart, together): (Vec<_>, Vec<_>) = all.iter().partition(|snippet| snippet.is_global());
    let mut fates = BTreeMap::new();
    for group in apart.into_iter().map(|snippet| vec![snippet]).chain([together]) {
        fates.extend(outcome(&group).await);
    }
    let different = all.iter().filter_map(|snippet| match &fates[snippet.name.as_str()] {
        SnippetOutcome::Different(what) => Some(format!("{}: {}", snippet.name, what.join("; "))),
        _ => None,
    });
    let different: Vec<_> = different.collect();
    assert!(different.is_empty(), "{} are different:\n{}", different.len(), different.join("\n"));
    golden::check(
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/snippets/outcome.txt"),
        &described(&all, &fates),
    );
}

/// Serves the snippets and sends the recorded requests.
async fn outcome<'s>(group: &[&'s Snippet]) -> Vec<(&'s str, SnippetOutcome)> {
    let manifests = Manifests::new();
    manifests.put("class.yaml", ingress_class("nginx", "k8s.io/ingress-nginx"));
    let mut settings = vec![("allow-snippet-annotations", "true"), ("annotations-risk-level", "Critical")];
    for snippet in group {
        settings.extend(snippet.settings());
        manifests.put(&format!("{}.yaml", snippet.name), snippet.ingress().to_string());
    }
    manifests.put("settings.yaml", config_map("ingress-nginx", "ingress-nginx-controller", &settings));
    manifests.put("heads.yaml", config_map("demo", "heads", &[("X-C", "custom"), ("X-D", "custom")]));
    manifests.put("users.yaml", USERS);
    let mut echoes = Vec::new();
    for service in ["main", "auth"] {
        let options = EchoOptions {
            listen: vec!["127.0.0.1:0".parse().unwrap()],
            identity: Identity {
                namespace: "demo".to_owned(),
                service: service.to_owned(),
                pod: service.to_owned(),
            },
            ..EchoOptions::default()
        };
        let server = EchoServer::bind(options).await.unwrap();
        manifests.put(
            &format!("service-{service}.yaml"),
            service_with_endpoints("demo", service, 80, &[server.addresses()[0]]),
        );
        echoes.push(tokio::spawn(server.run(std::future::pending())));
    }
    let refusals = refusals(manifests.path());
    let fairway = Fairway::ready(Path::new(BINARY), manifests.path(), FLAGS).await;
    let mut fates = Vec::new();
    for snippet in group {
        let of_settings = || refusals.get("ingress-nginx-controller");
        let refused = refusals.get(&snippet.name).or_else(of_settings);
        fates.push((&*snippet.name, snippet_outcome(&fairway, snippet, refused).await));
    }
    echoes.iter().for_each(tokio::task::JoinHandle::abort);
    fates
}

async fn snippet_outcome(fairway: &Fairway, snippet: &Snippet, refused: Option<&String>) -> SnippetOutcome {
    let mut different = Vec::new();
    if let Some(reason) = refused {
        for exchange in snippet.exchanges() {
            let (response, _) = send_case(fairway, &exchange.request).await.unwrap();
            // Some requests are malformed in any case.
            if !matches!(response.status, 400 | 503) {
                different.push(format!("it is refused, and its paths answer {}", response.status));
            }
        }
        return if different.is_empty() {
            SnippetOutcome::Refused(reason.clone())
        } else {
            SnippetOutcome::Different(different)
        };
    }
    if let Outcome::Refused(why) = &snippet.by_nginx {
        return SnippetOutcome::Different(vec![format!("nginx refuses it: {why}")]);
    }
    for exchange in snippet.exchanges() {
        let request = &exchange.request;
        let found = replay(fairway, exchange, None).await;
        different.extend(found.iter().filter(|it| !is_of_echo(it)).map(|it| {
            format!(
                "{} {}: {}: recorded {:?}, now {:?}",
                request.method, request.target, it.description, it.recorded, it.now
            )
        }));
    }
    if different.is_empty() { SnippetOutcome::Served } else { SnippetOutcome::Different(different) }
}

/// Whether a deviation is only that a response has no echo to compare: it has no body, or another type.
fn is_of_echo(found: &Deviation) -> bool {
    found.description == "upstream" && matches!(&*found.now, "none" | "")
}

/// Why snippets are refused, by object name.
fn refusals(directory: &Path) -> BTreeMap<String, String> {
    let output =
        Command::new(BINARY).args(["check", "--output", "json"]).args(FLAGS).arg(directory).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let found = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let found = found.filter(|it| it["code"] == "unsupported-protection");
    let logged = |it: Value| {
        let (name, message) = (it["origin"]["name"].as_str()?.to_owned(), it["problem"].as_str()?.to_owned());
        Some((name, message))
    };
    found.filter_map(logged).collect()
}

/// The numbers of served and refused snippets, and each refused one with the reason.
fn described(all: &[Snippet], fates: &BTreeMap<&str, SnippetOutcome>) -> String {
    let is_served = |snippet: &&Snippet| matches!(fates[snippet.name.as_str()], SnippetOutcome::Served);
    let by_nginx = |snippet: &&Snippet| matches!(snippet.by_nginx, Outcome::Exchanges(_));
    let listed: Vec<_> = all.iter().filter(|snippet| snippet.is_listed).filter(by_nginx).collect();
    let served = listed.iter().copied().filter(is_served).count();
    assert!(served * 100 >= listed.len() * 80, "{served} of {} are served", listed.len());
    let mut text = format!(
        "{} snippets: {} served as by nginx, {} refused.\n\
         Of {} that have listed directives only and that nginx takes, {served} are served: {} %.\n\nRefused:\n",
        all.len(),
        all.iter().filter(is_served).count(),
        all.iter().filter(|snippet| !is_served(snippet)).count(),
        listed.len(),
        served * 100 / listed.len()
    );
    for snippet in all {
        if let SnippetOutcome::Refused(reason) = &fates[snippet.name.as_str()] {
            let by_nginx = match &snippet.by_nginx {
                Outcome::Refused(_) => " (as by nginx)",
                Outcome::Exchanges(_) => "",
            };
            _ = writeln!(text, "  {}{by_nginx}: {reason}", snippet.name);
        }
    }
    text
}
