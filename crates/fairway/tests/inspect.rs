//! The exact output of `check` and `explain`. `UPDATE_GOLDEN=1` writes the expected files.

use std::path::Path;
use std::process::{Command, Output};

use fairway_testkit::certificates::Authority;
use fairway_testkit::golden;
use fairway_testkit::proof::check::Installation;

fn fairway(arguments: &[&str]) -> Output {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    Command::new(env!("CARGO_BIN_EXE_fairway")).args(arguments).current_dir(fixtures).output().unwrap()
}

fn printed(arguments: &[&str]) -> String {
    let output = fairway(arguments);
    let code = output.status.code().unwrap();
    let (out, err) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    format!("{out}{err}exit code {code}\n")
}

/// Fails unless the file with this name has exactly this output.
fn is_as_kept(name: &str, printed: &str) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/printed");
    golden::check(folder.join(format!("{name}.txt")), printed);
}

#[test]
fn check_names_file_line_object_field_problem_and_consequence() {
    is_as_kept("check-broken", &printed(&["check", "broken"]));
}

#[test]
fn check_reports_problems_of_a_working_directory() {
    is_as_kept("check-shop", &printed(&["check", "shop"]));
}

#[test]
fn check_reports_ingresses_left_to_ingress_nginx() {
    let text = "apiVersion: networking.k8s.io/v1\nkind: IngressClass\nmetadata: {name: edge}\n\
                spec: {controller: k8s.io/ingress-nginx}\n---\n\
                apiVersion: networking.k8s.io/v1\nkind: Ingress\nmetadata: {name: new, namespace: shop}\n\
                spec: {ingressClassName: edge}\n---\n\
                apiVersion: networking.k8s.io/v1\nkind: Ingress\nmetadata: {name: old, namespace: shop, annotations: \
                {kubernetes.io/ingress.class: nginx}}\nspec: {}\n---\n\
                apiVersion: networking.k8s.io/v1\nkind: Ingress\nmetadata: {name: other, namespace: shop, annotations: \
                {kubernetes.io/ingress.class: traefik}}\nspec: {}\n";
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("all.yaml"), text).unwrap();
    let diagnostics = printed(&["check", dir.path().to_str().unwrap()]);
    let note = "note[ingress-class]: Ingress shop/new spec.ingressClassName: edge is a class of ingress-nginx, as is that of 1 more \
                Ingress; not served or checked without --ingress-class-compat";
    assert!(diagnostics.contains(note), "{diagnostics}");
    let diagnostics = printed(&["check", dir.path().to_str().unwrap(), "--ingress-class-compat"]);
    assert!(!diagnostics.contains("is a class of ingress-nginx"), "{diagnostics}");
}

#[test]
fn check_writes_one_json_object_per_line() {
    let output = fairway(&["check", "shop", "--output", "json"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(!text.is_empty());
    for line in text.lines() {
        let diagnostic: serde_json::Value = serde_json::from_str(line).unwrap();
        for field in ["severity", "code", "problem", "consequence", "origin"] {
            assert!(!diagnostic[field].is_null(), "{field} in {line}");
        }
        assert!(diagnostic["origin"]["source"]["line"].is_u64(), "{line}");
    }
}

/// Text of an object that reorders or ends a line, or is invisible.
#[test]
fn check_escapes_hidden_characters_in_every_format() {
    let folder = tempfile::tempdir().unwrap();
    let hidden = "5\u{202e}0\u{200b}\u{e0041}";
    let ingress = serde_json::json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "Ingress",
        "metadata": {
            "name": "web", "namespace": "shop",
            "annotations": { "nginx.ingress.kubernetes.io/proxy-body-size": hidden },
        },
        "spec": { "ingressClassName": "nginx", "rules": [{ "host": "a.test" }] },
    });
    std::fs::write(folder.path().join("a.json"), ingress.to_string()).unwrap();
    let folder = folder.path().to_str().unwrap();
    for output in ["text", "json", "markdown", "html"] {
        for report in [None, Some("--report")] {
            let arguments = ["check", folder, "--ingress-class-compat", "--output", output];
            let printed = fairway(&arguments.into_iter().chain(report).collect::<Vec<_>>());
            let text = String::from_utf8(printed.stdout).unwrap();
            assert!(text.contains("proxy-body-size"), "{output} {report:?}: {text}");
            let shown = text.contains(['\u{202e}', '\u{200b}', '\u{e0041}']);
            assert!(!shown, "{output} {report:?}: {text}");
        }
    }
    let diagnostics = fairway(&["check", folder, "--ingress-class-compat", "--output", "json"]).stdout;
    let diagnostics: Vec<serde_json::Value> = String::from_utf8(diagnostics)
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let problem = |it: &serde_json::Value| it["problem"].as_str().unwrap().contains(hidden);
    assert!(diagnostics.iter().any(problem), "the JSON output has the value: {diagnostics:#?}");
}

const MOVING: [&str; 3] = ["check", "moving", "--ingress-class-compat"];

/// The output of `check` for the objects of an ingress-nginx installation, with additional arguments.
fn moving(arguments: &[&str]) -> String {
    printed(&[&MOVING, arguments].concat())
}

#[test]
fn a_report_shows_the_effects_of_moving_for_each_ingress() {
    is_as_kept("check-report", &moving(&["--report"]));
    is_as_kept("check-report-markdown", &moving(&["--output", "markdown"]));
}

/// The same objects that `fairway-bench check` measures by the thousands.
#[test]
fn a_report_has_every_ingress_of_an_installation() {
    let installation = Installation::with_ingresses(200);
    let binary = Path::new(env!("CARGO_BIN_EXE_fairway"));
    let (run, printed) = installation.check(binary, &["--report", "--output", "json"]);
    assert!(run.peak_mib > 1.0 && run.seconds > 0.0 && run.output_bytes == printed.len(), "{run:?}");
    let report: serde_json::Value = serde_json::from_slice(&printed).unwrap();
    assert_eq!(report["summary"]["ingresses"], 200);
    // One kind of ten has a snippet.
    assert_eq!(report["summary"]["refused"], 20);
    let shared = report["shared"].as_array().unwrap();
    assert_eq!(shared.len(), 16);
    assert!(shared.iter().all(|it| it["ingresses"].as_array().unwrap().len() == 2), "{shared:?}");
}

#[test]
fn a_report_as_a_page_shows_objects_as_text() {
    let page = moving(&["--output", "html"]);
    assert!(page.starts_with("<!doctype html>") && page.contains("</html>"));
    // A line of the snippet, which is untrusted text.
    assert!(page.contains("<code>proxy_set_header X-User &lt;b&gt;$remote_user&lt;/b&gt;</code>"), "{page}");
    assert!(!page.contains("<b>"));
}

#[test]
fn a_report_as_json_has_the_same() {
    let text = moving(&["--report", "--output", "json"]);
    let json = text.strip_suffix("exit code 1\n").unwrap();
    let report: serde_json::Value = serde_json::from_str(json).unwrap();
    assert_eq!(report["summary"]["ingresses"], 3);
    assert_eq!(report["summary"]["refused"], 1);
    assert_eq!(report["shared"][0]["service"], "Service shop/main port 80");
    assert_eq!(report["shared"][0]["ended_by_strict"][0]["on"], "shop/wide");
    assert_eq!(report["ingresses"][1]["ingress"], "shop/web");
    assert_eq!(report["ingresses"][1]["annotations"][0]["instead"][0][0], "fairway.dev/deny");
}

#[test]
fn the_standard_input_is_a_source_too() {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    let input = std::fs::File::open(fixtures.join("moving/objects.yaml")).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_fairway"))
        .args(["check", "-", "--ingress-class-compat", "--report"])
        .stdin(input)
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("Ingress shop/web (standard input:6): refused"), "{text}");
    let nothing = Command::new(env!("CARGO_BIN_EXE_fairway"))
        .args(["check", "-"])
        .stdin(std::process::Stdio::null())
        .output()
        .unwrap();
    assert_eq!(nothing.status.code(), Some(2));
    assert!(String::from_utf8(nothing.stderr).unwrap().contains("holds no manifest"));
}

/// Output and exit code of `check` with this standard input.
fn check_of_input(text: &str, arguments: &[&str]) -> (String, Option<i32>) {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("input.yaml");
    std::fs::write(&file, text).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_fairway"))
        .args(["check", "-", "--ingress-class-compat"])
        .args(arguments)
        .stdin(std::fs::File::open(&file).unwrap())
        .output()
        .unwrap();
    (String::from_utf8(output.stdout).unwrap(), output.status.code())
}

/// The format of `kubectl get ingress -A -o yaml`.
const INGRESSES_ALONE: &str = "\
apiVersion: v1
kind: List
items:
- apiVersion: networking.k8s.io/v1
  kind: Ingress
  metadata:
    name: web
    namespace: shop
    annotations:
      nginx.ingress.kubernetes.io/auth-type: basic
      nginx.ingress.kubernetes.io/auth-secret: users
  spec:
    ingressClassName: nginx
    tls: [{hosts: [shop.test], secretName: tls}]
    rules:
    - host: shop.test
      http:
        paths:
        - {path: /, pathType: Prefix, backend: {service: {name: web, port: {number: 80}}}}
";

#[test]
fn references_to_objects_outside_the_input_are_unknown_and_not_errors() {
    let (diagnostics, code) = check_of_input(INGRESSES_ALONE, &[]);
    for object in ["Secret shop/users", "Secret shop/tls", "Service shop/web"] {
        let part = format!("cannot tell whether {object} exists: the input has no ");
        assert!(diagnostics.contains(&part), "{part} in {diagnostics}");
    }
    assert!(diagnostics.contains("0 errors, 0 warnings") && code == Some(0), "{diagnostics}");
    let (report, code) = check_of_input(INGRESSES_ALONE, &["--report", "--output", "json"]);
    let report: serde_json::Value = serde_json::from_str(&report).unwrap();
    assert_eq!(report["summary"]["refused"], 0, "{report:#}");
    assert_eq!(code, Some(0), "{report:#}");
    assert_eq!(report["summary"]["unknown_without"], serde_json::json!({"Secrets": 2, "Services": 1}));
    let rows = report["ingresses"][0]["annotations"].as_array().unwrap();
    let secret = rows.iter().find(|row| row["annotation"].as_str().unwrap().ends_with("/auth-secret"));
    assert!(secret.unwrap()["why"].as_str().unwrap().contains("cannot tell whether"), "{report:#}");
}

#[test]
fn a_report_leaves_out_no_ingress_that_cannot_be_judged() {
    let ingress = |name: &str, version: &str, spec: &str| {
        format!(
            "---\napiVersion: {version}\nkind: Ingress\nmetadata:\n  name: {name}\n  namespace: shop\n  annotations:\n    \
             nginx.ingress.kubernetes.io/server-snippet: return 403;\nspec: {spec}\n"
        )
    };
    let input = [
        ingress("typed", "networking.k8s.io/v1", "{rules: 5}"),
        ingress("old", "extensions/v1beta1", "{backend: {serviceName: web, servicePort: 80}}"),
        ingress("other", "networking.k8s.io/v1", "{ingressClassName: nowhere}"),
        ingress("classless", "networking.k8s.io/v1", "{}"),
    ];
    let (report, code) = check_of_input(&input.concat(), &["--report", "--output", "json"]);
    let report: serde_json::Value = serde_json::from_str(&report).unwrap();
    assert_eq!(code, Some(1), "{report:#}");
    let summary = &report["summary"];
    let counted = ["same", "refused", "of_others"].map(|name| summary[name].as_u64().unwrap());
    assert_eq!(counted, [0, 1, 1], "{report:#}");
    assert_eq!(report["ingresses"][0]["ingress"], "shop/other");
    let others = report["others"].as_array().unwrap();
    let names = ["typed", "old", "classless"];
    assert!(names.iter().all(|name| others.iter().any(|it| it["origin"]["name"] == *name)), "{report:#}");
}

#[test]
fn a_secret_is_missing_where_others_were_given() {
    let other = "---\napiVersion: v1\nkind: Secret\nmetadata: {name: other, namespace: shop}\n";
    let (diagnostics, code) = check_of_input(&format!("{INGRESSES_ALONE}{other}"), &[]);
    assert!(
        diagnostics.contains("error[missing-reference]: Ingress shop/web spec.tls[0].secretName"),
        "{diagnostics}"
    );
    assert!(diagnostics.contains("Secret shop/users does not exist") && code == Some(1), "{diagnostics}");
    assert!(diagnostics.contains("cannot tell whether Service shop/web exists"), "{diagnostics}");
}

#[test]
fn annotations_proposed_for_a_snippet_are_valid() {
    let report: serde_json::Value = {
        let text = moving(&["--report", "--output", "json"]);
        serde_json::from_str(text.strip_suffix("exit code 1\n").unwrap()).unwrap()
    };
    let annotations: serde_json::Map<_, _> = report["ingresses"][1]["annotations"][0]["instead"]
        .as_array()
        .unwrap()
        .iter()
        .map(|pair| (pair[0].as_str().unwrap().to_owned(), pair[1].clone()))
        .collect();
    assert_eq!(annotations.len(), 4, "{annotations:?}");
    let dir = tempfile::tempdir().unwrap();
    let ingress = serde_json::json!({
        "apiVersion": "networking.k8s.io/v1",
        "kind": "Ingress",
        "metadata": {"name": "a", "namespace": "a", "annotations": annotations},
        "spec": {"ingressClassName": "nginx", "rules": [{"host": "a.test"}]}
    });
    std::fs::write(dir.path().join("a.json"), ingress.to_string()).unwrap();
    let diagnostics = printed(&["check", dir.path().to_str().unwrap(), "--ingress-class-compat"]);
    assert!(diagnostics.contains("0 errors") && !diagnostics.contains("annotation"), "{diagnostics}");
}

#[test]
fn explain_tells_the_chain_and_why_others_lost() {
    let url = "http://shop.example.com/cart/../cart?x=1";
    is_as_kept("explain-exact", &printed(&["explain", url, "--manifests", "shop"]));
}

#[test]
fn explain_tells_of_wildcards_and_missing_services() {
    let url = "https://other.example.com/";
    is_as_kept("explain-wildcard", &printed(&["explain", url, "--manifests", "shop"]));
}

#[test]
fn explain_reports_that_nothing_serves_a_name() {
    is_as_kept("explain-nobody", &printed(&["explain", "http://nobody.test/", "--manifests", "shop"]));
}

#[test]
fn explain_covers_each_address_that_a_name_may_resolve_to() {
    let explanation = printed(&["explain", "http://shop.example.com/", "--manifests", "gateways"]);
    is_as_kept("explain-gateway-and-ingress", &explanation);
}

#[test]
fn explain_shows_the_backend_of_tls_passthrough() {
    let by_gateway = printed(&["explain", "https://a.pass.example.com/", "--manifests", "gateways"]);
    is_as_kept("explain-passthrough", &by_gateway);
    let by_ingress = printed(&["explain", "https://ingress.example.com/", "--manifests", "gateways"]);
    assert!(by_ingress.contains("TLS passthrough"), "{by_ingress}");
    assert!(by_ingress.contains("127.0.0.1:8443"), "{by_ingress}");
    let no_route = printed(&["explain", "https://b.pass.example.com/", "--manifests", "gateways"]);
    assert!(no_route.contains("no route matches the name: the connection is closed"), "{no_route}");
}

#[test]
fn explain_shows_which_clients_a_listener_refuses_and_which_peers_it_trusts() {
    let dir = tempfile::tempdir().unwrap();
    let shop = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/shop");
    for name in ["shop.yaml", "machine.yaml"] {
        std::fs::copy(shop.join(name), dir.path().join(name)).unwrap();
    }
    let keys = [
        ("use-forwarded-headers", "true"),
        ("proxy-real-ip-cidr", "10.0.0.0/8"),
        ("forwarded-for-header", "CF-Connecting-IP"),
        ("enable-underscores-in-headers", "true"),
        ("block-user-agents", "~*bot"),
        ("ssl-reject-handshake", "true"),
    ];
    let settings = fairway_testkit::manifests::config_map("shop", "settings", &keys);
    std::fs::write(dir.path().join("settings.yaml"), settings).unwrap();
    let explain_with = |url: &str, flags: &[&str]| {
        let folder = dir.path().to_str().unwrap();
        printed(&[&["explain", url, "--manifests", folder, "--configmap", "shop/settings"], flags].concat())
    };
    let served = explain_with("http://shop.example.com/cart", &["--header", "User-Agent: curl"]);
    assert!(
        served.contains("the client address comes from cf-connecting-ip, trusted from 10.0.0.0/8"),
        "{served}"
    );
    assert!(served.contains("header names may contain _") && !served.contains("blocked"), "{served}");
    let blocked = explain_with("http://shop.example.com/cart", &["--header", "User-Agent: a Bot"]);
    assert!(blocked.contains("the client is blocked by its User-Agent header: returns 403"), "{blocked}");
    let unknown = explain_with("https://nobody.test/", &[]);
    assert!(unknown.contains("no host has this name: the TLS handshake is refused"), "{unknown}");
}

/// The example in `docs/gateway-api.md`.
#[test]
fn the_gateway_example_is_clean_and_served_as_documented() {
    let dir = tempfile::tempdir().unwrap();
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/gateway");
    for name in ["shop.yaml", "machine.yaml"] {
        std::fs::copy(example.join(name), dir.path().join(name)).unwrap();
    }
    let leaf = Authority::new("test").leaf(&["shop.example.com"]);
    std::fs::write(dir.path().join("tls.yaml"), leaf.secret_yaml("shop", "shop-tls")).unwrap();
    let dir = dir.path().to_str().unwrap();
    let checked = printed(&["check", dir]);
    assert!(checked.ends_with("exit code 0\n"), "{checked}");
    let explain_with = |url: &str, flags: &[&str]| {
        printed(&[&["explain", url, "--manifests", dir, "--gateway-address", "127.0.0.1"], flags].concat())
    };
    let root = "https://shop.example.com:9443/";
    for (url, more, parts) in [
        (
            root,
            &[][..],
            &["shop/web:80;ewma (9 of 10)", "shop/web-next:80;ewma (1 of 10)", "Secret shop/shop-tls"][..],
        ),
        (root, &["-H", "X-Canary: always"], &["backend      shop/web-next:80;ewma:"]),
        ("https://shop.example.com:9443/api/items", &[], &["/items after the rewrite", "127.0.0.1:3003"]),
        ("http://shop.example.com:9080/", &[], &["returns 301: redirect"]),
    ] {
        let explanation = explain_with(url, more);
        for part in parts {
            assert!(explanation.contains(part), "{url} {part}: {explanation}");
        }
        // There are no Ingresses, so their listener is not shown.
        assert_eq!(explanation.matches("\nlistener ").count(), 1, "{explanation}");
    }
}

#[test]
fn explain_shows_where_tls_is_terminated_for_streams() {
    let dir = tempfile::tempdir().unwrap();
    let objects = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/gateways/objects.yaml");
    let route = "---\napiVersion: gateway.networking.k8s.io/v1\nkind: TLSRoute\nmetadata: {name: db, namespace: shop}\n\
                 spec: {parentRefs: [{name: edge, sectionName: database}], hostnames: [db.example.com], \
                 rules: [{backendRefs: [{name: secure, port: 443}]}]}\n";
    std::fs::write(dir.path().join("a.yaml"), std::fs::read_to_string(objects).unwrap() + route).unwrap();
    let leaf = Authority::new("test").leaf(&["db.example.com"]);
    std::fs::write(dir.path().join("tls.yaml"), leaf.secret_yaml("shop", "db")).unwrap();
    let explanation =
        printed(&["explain", "https://db.example.com/", "--manifests", dir.path().to_str().unwrap()]);
    for part in [
        "TLS is terminated, the decrypted bytes are forwarded; Gateway shop/edge spec.listeners[1]",
        "certificate  Secret shop/db",
        "route        db.example.com: TLSRoute shop/db",
        "127.0.0.1:8443",
    ] {
        assert!(explanation.contains(part), "{part}: {explanation}");
    }
}

#[test]
fn explain_chooses_the_certificate_by_name() {
    let dir = tempfile::tempdir().unwrap();
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/quickstart");
    for name in ["shop.yaml", "machine.yaml"] {
        std::fs::copy(examples.join(name), dir.path().join(name)).unwrap();
    }
    let leaf = Authority::new("test").leaf(&["shop.example.com"]);
    std::fs::write(dir.path().join("tls.yaml"), leaf.secret_yaml("shop", "shop-tls")).unwrap();
    let dir = dir.path().to_str().unwrap();
    let explanation = printed(&["explain", "https://shop.example.com/cart", "--manifests", dir]);
    assert!(explanation.contains("certificate  Secret shop/shop-tls"), "{explanation}");
    assert!(explanation.contains("selected by the server name shop.example.com (SNI)"), "{explanation}");
    assert!(explanation.contains("127.0.0.1:3003 echo-3"), "{explanation}");
    let checked = printed(&["check", dir]);
    assert!(
        checked.ends_with("exit code 0\n"),
        "the quickstart is clean once it has its certificate: {checked}"
    );
}
