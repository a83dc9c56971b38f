//! Any text as manifests, all the way to what is served: nothing panics, the same text means the same, in whatever steps it
//! is told, and an object that is right is served as it is alone, whatever stands beside it. `PROPTEST_CASES` makes it
//! longer.

#![allow(clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use fairway_control::{Engine, manifest};
use fairway_model::{HostPattern, VirtualHost, WildcardSpan};
use fairway_translate::{Change, Options, WithoutClass};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};

const NOW: i64 = 1_767_225_600;

/// What must be served whatever stands beside it.
const GOOD: &str = r#"
---
apiVersion: networking.k8s.io/v1
kind: IngressClass
metadata: {name: survivor}
spec: {controller: fairway.dev/ingress-controller}
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: survivor, namespace: survivor}
spec:
  ingressClassName: survivor
  rules:
  - host: survivor.test
    http: {paths: [{path: /a, pathType: Prefix, backend: {service: {name: survivor, port: {number: 80}}}}]}
---
apiVersion: v1
kind: Service
metadata: {name: survivor, namespace: survivor}
spec: {ports: [{port: 80, targetPort: 8080}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: survivor, namespace: survivor, labels: {kubernetes.io/service-name: survivor}}
addressType: IPv4
ports: [{port: 8080}]
endpoints: [{addresses: [10.9.9.9]}]
---
"#;

/// What translation is told of a text.
fn changes(text: &str) -> Vec<Change> {
    let file: Arc<str> = "any.yaml".into();
    let mut changes = Vec::new();
    for section in manifest::sections(text) {
        if let Ok(Some(root)) = manifest::parse(&section) {
            let reading = manifest::read(&root, &file);
            changes.extend(
                reading.objects.into_iter().map(|(object, source)| Change::Set(object, Some(source))),
            );
        }
    }
    changes
}

fn engine() -> Engine {
    Engine::new(Options { without_class: WithoutClass::Served, ..Options::default() })
}

/// What the survivor's host is.
fn survivor(engine: &Engine) -> Arc<VirtualHost> {
    let host = HostPattern::parse("survivor.test", WildcardSpan::OneLabel).unwrap();
    let hosts = &engine.current().unwrap().translation.config.hosts;
    let mut found = hosts.values().filter(|it| it.key.host == host);
    let only = Arc::clone(found.next().expect("the survivor is served"));
    assert!(found.next().is_none());
    only
}

/// All that a user could see of what came of a text.
fn seen(engine: &Engine) -> (String, BTreeSet<String>) {
    let outcome = engine.current().unwrap();
    let said = outcome.diagnostics().iter().chain(outcome.problems.iter());
    (format!("{:?}", outcome.digest), said.map(ToString::to_string).collect())
}

fn holds(text: &str) {
    let mut alone = engine();
    alone.update(changes(GOOD), NOW);
    // A directive (`%`) belongs to the document that follows, so one that is wrong must not be the survivor's.
    for text in [format!("{GOOD}{text}"), format!("{text}\n...\n{GOOD}")] {
        let all = changes(&text);
        let (mut at_once, mut again, mut in_steps) = (engine(), engine(), engine());
        at_once.update(all.clone(), NOW);
        again.update(changes(&text), NOW);
        assert_eq!(seen(&at_once), seen(&again), "the same text means the same");
        all.into_iter().for_each(|change| _ = in_steps.update(vec![change], NOW));
        if in_steps.current().is_some() {
            assert_eq!(seen(&at_once), seen(&in_steps), "told step by step");
        }
        let (mine, other) = (survivor(&at_once), survivor(&alone));
        let rules = |host: &VirtualHost| -> Vec<_> {
            let rules = host.routes.iter().flat_map(|route| &route.rules);
            rules.map(|rule| (rule.matches.clone(), rule.action.clone(), rule.filters.clone())).collect()
        };
        assert_eq!(rules(&mine), rules(&other), "the survivor is served as it is alone");
        let backends = |engine: &Engine| {
            let config = &engine.current().unwrap().translation.config;
            let mine = config.backends.values().filter(|it| it.key.to_string().contains("survivor"));
            mine.map(|backend| backend.endpoints.clone()).collect::<Vec<_>>()
        };
        assert_eq!(backends(&at_once), backends(&alone));
    }
}

/// Manifests of translation's own tests.
fn texts() -> Vec<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fairway-translate/tests/golden");
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let texts: Vec<_> =
        files.into_iter().filter_map(|file| std::fs::read_to_string(file.join("in.yaml")).ok()).collect();
    assert!(texts.len() >= 30);
    texts
}

/// Values that somebody could write where others belong.
const VALUES: [&str; 30] = [
    "",
    "~",
    "null",
    "0",
    "-1",
    "65536",
    "99999999999999999999",
    "1e400",
    "true",
    "[]",
    "{}",
    "[[[[[[[[[[[[]]]]]]]]]]]]",
    "'*'",
    "'*.*.example.com'",
    "'a..b'",
    "/",
    "'/((((a+)+)+)+)$'",
    "'/[a'",
    "'/%zz'",
    "\"\\u0000\"",
    "\"a\\nb: c\"",
    "'$host$request_uri'",
    "'}; return 200;'",
    "&a [*a]",
    "*a",
    "!!binary aGk=",
    "|\n  x\n y",
    "\u{feff}",
    "'\u{202e}'",
    "\"",
];

#[derive(Clone, Debug)]
enum Edit {
    /// Another value behind the colon of a line.
    Value(Index, &'static str),
    /// A line is gone, doubled, or at another place.
    Gone(Index),
    Doubled(Index),
    Moved(Index, Index),
    /// Some bytes of a line.
    Text(Index, Index, String),
    /// Another depth.
    Indented(Index, usize),
}

fn edits() -> impl Strategy<Value = Edit> {
    prop_oneof![
        6 => (any::<Index>(), select(&VALUES[..])).prop_map(|(line, value)| Edit::Value(line, value)),
        1 => any::<Index>().prop_map(Edit::Gone),
        1 => any::<Index>().prop_map(Edit::Doubled),
        1 => (any::<Index>(), any::<Index>()).prop_map(|(line, to)| Edit::Moved(line, to)),
        2 => (any::<Index>(), any::<Index>(), "[ -~\t\u{e9}\u{0}]{0,6}").prop_map(|(line, at, text)| Edit::Text(line, at, text)),
        1 => (any::<Index>(), 0..6usize).prop_map(|(line, blanks)| Edit::Indented(line, blanks)),
    ]
}

fn edited(text: &str, edits: Vec<Edit>) -> String {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    for edit in edits {
        let count = lines.len();
        if count < 2 {
            break;
        }
        match edit {
            Edit::Value(line, value) => {
                let line = &mut lines[line.index(count)];
                if let Some(colon) = line.find(": ") {
                    line.truncate(colon + 2);
                    line.push_str(value);
                }
            }
            Edit::Gone(line) => drop(lines.remove(line.index(count))),
            Edit::Doubled(line) => lines.insert(line.index(count), lines[line.index(count)].clone()),
            Edit::Moved(line, to) => {
                let line = lines.remove(line.index(count));
                lines.insert(to.index(count - 1), line);
            }
            Edit::Text(line, at, text) => {
                let line = &mut lines[line.index(count)];
                let at =
                    line.char_indices().map(|(at, _)| at).nth(at.index(line.len() + 1)).unwrap_or(line.len());
                line.insert_str(at, &text);
            }
            Edit::Indented(line, blanks) => {
                let line = &mut lines[line.index(count)];
                *line = format!("{}{}", " ".repeat(blanks), line.trim_start());
            }
        }
    }
    lines.join("\n") + "\n"
}

#[test]
fn deep_and_wide_documents_hold() {
    for text in [
        "[".repeat(100_000),
        "a: {".repeat(100_000),
        "- ".repeat(100_000),
        format!(
            "kind: Ingress\napiVersion: networking.k8s.io/v1\nmetadata: {}{}\n",
            "[".repeat(5_000),
            "]".repeat(5_000)
        ),
        format!("kind: List\napiVersion: v1\nitems: {}{}\n", "[".repeat(200), "]".repeat(200)),
        "kind: List\napiVersion: v1\nitems:\n- kind: List\n  apiVersion: v1\n  items: [{}]\n".to_owned(),
        "x: ".to_owned() + &"y".repeat(1 << 20) + "\n",
    ] {
        holds(&text);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(
        std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(150),
    ) })]

    #[test]
    fn manifests_with_mistakes_hold(text in select(texts()), edits in vec(edits(), 0..6)) {
        holds(&edited(&text, edits));
    }

    #[test]
    fn any_text_holds(text in "[-{}\\[\\]:,&*!|>'\"#%@`a-c \n\t\u{e9}]{0,80}") {
        holds(&text);
    }
}
