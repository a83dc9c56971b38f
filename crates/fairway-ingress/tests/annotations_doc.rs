//! Checks that the list in `docs/annotations.md` matches the families of annotations and `examples.yaml`, and that each example
//! works.
//!
//! `UPDATE_GOLDEN=1 cargo test -p fairway-ingress --test integration annotations_doc::` rewrites the list.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::Path;

use fairway_ingress::{KnownAnnotation, Support, Translation, known_annotations, translate};
use fairway_model::{Guard, RuleStep};
use fairway_objects::manifest::{self, Schema};
use fairway_testkit::golden;
use serde_json::Value;

use crate::support::{NOW, scene};

#[test]
fn the_list_and_the_code_agree() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/annotations.md");
    let text = fs::read_to_string(&file).unwrap();
    let is_entry = |line: &&str| line.starts_with("* `");
    let examples = examples();
    let entries: Vec<String> = known_annotations().iter().map(|known| entry(known, &examples)).collect();
    // The first list: the one of Fairway's own annotations comes later.
    let before = text.lines().take_while(|line| !is_entry(line));
    let after = text.lines().skip_while(|line| !is_entry(line)).skip_while(is_entry);
    let lines: Vec<&str> = before.chain(entries.iter().map(String::as_str)).chain(after).collect();
    golden::check(&file, &(lines.join("\n") + "\n"));
}

#[test]
fn every_working_annotation_has_an_accepted_example() {
    let examples = examples();
    for known in known_annotations() {
        let works = !matches!(known.support, Support::Missing { .. });
        assert_eq!(examples.contains_key(known.name), works, "an example of {}", known.name);
    }
    let mut wrong = Vec::new();
    for (name, example) in &examples {
        let found = translated(name, example, "").diagnostics;
        let found: Vec<_> = found.iter().map(ToString::to_string).collect();
        wrong.extend(found.into_iter().map(|found| format!("{name}: {found}")));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// `ssl-passthrough` together with an access restriction closes the Ingress, whichever annotation sets the
/// restriction.
#[test]
fn passthrough_names_each_annotation_that_it_would_bypass() {
    for (name, example) in examples().iter().filter(|(name, _)| **name != "ssl-passthrough") {
        let alone = translated(name, example, "").config;
        let rules = alone.hosts.values().flat_map(|host| &host.routes).flat_map(|route| &route.rules);
        let protects = rules.flat_map(|rule| rule.phases.steps()).any(|step| {
            matches!(
                step,
                RuleStep::ResponseRate(_)
                    | RuleStep::Extension(_)
                    | RuleStep::Guard(
                        Guard::Access(_)
                            | Guard::Any(_)
                            | Guard::ApiKey(_)
                            | Guard::Authorize(_)
                            | Guard::BasicAuth(_)
                            | Guard::ClientCertificate(_)
                            | Guard::ConcurrencyLimit(_)
                            | Guard::Deny(_)
                            | Guard::ExternalAuth(_)
                            | Guard::Jwt(_)
                            | Guard::Oidc(_)
                            | Guard::RateLimit(_)
                            | Guard::Respond(_)
                    )
            )
        });
        let passed = translated(name, example, "    nginx.ingress.kubernetes.io/ssl-passthrough: \"true\"\n");
        let is_named = passed.diagnostics.iter().any(|found| found.code == "passthrough-protected");
        assert_eq!(is_named, protects, "{name}");
    }
}

/// The translation of an example with additional annotations.
fn translated(name: &str, example: &Value, besides: &str) -> Translation {
    let mut annotations = besides.to_owned();
    let with = example["with"].as_object().into_iter().flatten();
    for (name, value) in with.map(|(name, value)| (name.as_str(), value)).chain([(name, &example["example"])])
    {
        let value = value.as_str().unwrap_or_else(|| panic!("{name}: {value} is no text"));
        _ = writeln!(annotations, "    nginx.ingress.kubernetes.io/{name}: {value:?}");
    }
    let main = if annotations.contains("/canary: ") { MAIN } else { "" };
    let path = match () {
        () if annotations.contains("/rewrite-target: ") => "/a/(.*)",
        () if annotations.contains("/ssl-passthrough: ") => "/",
        () => "/a",
    };
    let scene =
        scene(&SITE.replace("MAIN\n", main).replace("PATH", path).replace("    ANNOTATIONS\n", &annotations));
    translate(&scene.resources, &scene.options, NOW)
}

/// The objects that examples reference.
const SITE: &str = r#"kind: Options
configmap: demo/settings
waf: 127.0.0.1:9002
---
apiVersion: networking.k8s.io/v1
kind: IngressClass
metadata: {name: fairway}
spec: {controller: fairway.dev/ingress-controller}
---
MAIN
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata:
  name: web
  namespace: demo
  creationTimestamp: "2026-01-02T00:00:00Z"
  annotations:
    ANNOTATIONS
spec:
  ingressClassName: fairway
  rules:
  - host: a.test
    http:
      paths:
      - {path: "PATH", pathType: ImplementationSpecific, backend: {service: {name: other, port: {number: 80}}}}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: settings, namespace: demo}
data: {global-allowed-response-headers: X-One, allow-snippet-annotations: "true", annotations-risk-level: Critical}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: headers, namespace: demo}
data: {X-One: one}
---
apiVersion: v1
kind: Secret
metadata: {name: authority, namespace: demo}
stringData:
  ca.crt: |
    -----BEGIN CERTIFICATE-----
    MIIBWDCB/6ADAgECAhRgmEX0+pFrpdDuCU2pTdBgqAA5vTAKBggqhkjOPQQDAjAh
    MR8wHQYDVQQDDBZyY2dlbiBzZWxmIHNpZ25lZCBjZXJ0MB4XDTIwMDEwMTAwMDAw
    MFoXDTQwMDEwMTAwMDAwMFowITEfMB0GA1UEAwwWcmNnZW4gc2VsZiBzaWduZWQg
    Y2VydDBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABKckIhAeuo9kx+t0xx/ng0gK
    rPAC1p2Tq4IdxOE0DklTYwcfdv1fIfsFO+ZFeicPctFWNMTvWQKPlyLjNK1Nmzqj
    FTATMBEGA1UdEQQKMAiCBmEudGVzdDAKBggqhkjOPQQDAgNIADBFAiBUQah2KdI2
    rvCr4IXXov4yjDRT4SxgbOhtsXAqr/pf8AIhAJiA5qpjOLOV4/RdJbBRPfFJIt6l
    0+H1Rty5IyRbGbhW
    -----END CERTIFICATE-----
  note: "the separator of documents may not follow a certificate"
---
apiVersion: v1
kind: Secret
metadata: {name: users, namespace: demo}
stringData: {auth: "user:$apr1$aaaaaaaa$h8ukFPb8HsVWnBtbdpMYo1"}
---
apiVersion: v1
kind: Service
metadata: {name: main, namespace: demo}
spec: {clusterIP: 10.96.0.1, ports: [{name: http, port: 80, targetPort: 3000}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: main-1, namespace: demo, labels: {kubernetes.io/service-name: main}}
addressType: IPv4
ports: [{name: http, port: 3000, protocol: TCP}]
endpoints: [{addresses: ["10.0.0.1"]}]
---
apiVersion: v1
kind: Service
metadata: {name: other, namespace: demo}
spec: {clusterIP: 10.96.0.2, ports: [{name: http, port: 80, targetPort: 3000}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: other-1, namespace: demo, labels: {kubernetes.io/service-name: other}}
addressType: IPv4
ports: [{name: http, port: 3000, protocol: TCP}]
endpoints: [{addresses: ["10.0.0.2"]}]
---
apiVersion: v1
kind: Service
metadata: {name: auth, namespace: demo}
spec: {clusterIP: 10.96.0.3, ports: [{name: http, port: 80, targetPort: 3000}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: auth-1, namespace: demo, labels: {kubernetes.io/service-name: auth}}
addressType: IPv4
ports: [{name: http, port: 3000, protocol: TCP}]
endpoints: [{addresses: ["10.0.0.3"]}]
---
apiVersion: v1
kind: Service
metadata: {name: errors, namespace: demo}
spec: {clusterIP: 10.96.0.4, ports: [{name: http, port: 80, targetPort: 3000}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: errors-1, namespace: demo, labels: {kubernetes.io/service-name: errors}}
addressType: IPv4
ports: [{name: http, port: 3000, protocol: TCP}]
endpoints: [{addresses: ["10.0.0.4"]}]
---
kind: Certificate
metadata: {name: cert, namespace: demo}
names: ["up.example.com"]
"#;

/// The Ingress of which a canary takes requests.
const MAIN: &str = r#"apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: main, namespace: demo, creationTimestamp: "2026-01-01T00:00:00Z"}
spec:
  ingressClassName: fairway
  rules:
  - host: a.test
    http:
      paths:
      - {path: "/a", pathType: ImplementationSpecific, backend: {service: {name: main, port: {number: 80}}}}
---
"#;

/// By annotation.
fn examples() -> BTreeMap<String, Value> {
    let examples = manifest::parse_single(include_str!("examples.yaml"), Schema::Core).unwrap().unwrap();
    serde_json::from_value(examples.to_json()).unwrap()
}

/// The entry of an annotation: an example, its effect, and how it differs from ingress-nginx.
fn entry(known: &KnownAnnotation, examples: &BTreeMap<String, Value>) -> String {
    let mut entry = format!("* `{}", known.name);
    if let Some(example) = examples.get(known.name) {
        let text = |field: &str| example[field].as_str().unwrap_or_default();
        _ = write!(entry, ": {}`", text("example"));
        let alias = known.alias_of.map(|newer| format!("alias of `{newer}`"));
        match (alias, text("does")) {
            (Some(alias), _) => _ = write!(entry, " ({alias})"),
            (None, "") => {}
            (None, effect) => _ = write!(entry, " ({effect})"),
        }
    } else {
        entry.push('`');
    }
    match known.support {
        Support::Done => {}
        Support::Differs { how } => _ = write!(entry, ": {how}"),
        Support::Needless { why } => _ = write!(entry, ": no effect: {why}"),
        Support::Missing { effect, .. } => _ = write!(entry, ": not supported: {effect}"),
    }
    entry
}
