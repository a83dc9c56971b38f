//! `fairway run` as a process: which peers may name a client's address, what the log shows of it, and where an external name may
//! not lead.

use std::path::Path;
use std::process::Command;

use fairway_testkit::manifests::{Ingress, Manifests, config_map, ingress_class, service_with_endpoints};
use fairway_testkit::wait::{WAIT_TIMEOUT, eventually};
use fairway_testkit::{Backend, BackendResponse, Client, Fairway, Request};

const BINARY: &str = env!("CARGO_BIN_EXE_fairway");
const SETTINGS: [&str; 2] = ["--configmap", "a/settings"];

/// An Ingress at `a.test` for clients of 203.0.113.0/24, with a backend, and settings with these keys.
async fn guarded(keys: &[(&str, &str)]) -> (Manifests, Backend) {
    let backend = Backend::http(|_| BackendResponse::ok("inside")).await;
    let manifests = Manifests::new();
    manifests.put("class.yaml", ingress_class("fairway", "fairway.dev/ingress-controller"));
    let ingress = Ingress::new("a", "web")
        .class(Some("fairway"))
        .annotation("whitelist-source-range", "203.0.113.0/24")
        .route("a.test", "/", ("web", 80));
    manifests.put("web.yaml", ingress.yaml());
    manifests.put("service.yaml", service_with_endpoints("a", "web", 80, &[backend.address()]));
    manifests.put("settings.yaml", config_map("a", "settings", keys));
    (manifests, backend)
}

async fn run(manifests: &Manifests, flags: &[&str]) -> Fairway {
    Fairway::ready(Path::new(BINARY), manifests.path(), &[&SETTINGS, flags].concat()).await
}

/// The status of a request that claims to come from the range.
async fn spoofed(fairway: &Fairway) -> u16 {
    let mut client = Client::connect(fairway.http).await.unwrap();
    let request = Request::get("a.test", "/").header("X-Forwarded-For", "203.0.113.9").close();
    client.exchange(&request).await.unwrap().status
}

#[tokio::test]
async fn the_key_does_not_widen_the_ranges_of_the_flag() {
    let believed = [("use-forwarded-headers", "true")];
    let (manifests, _backend) = guarded(&believed).await;
    let strict = run(&manifests, &["--trusted-forwarders", "192.0.2.0/24"]).await;
    assert_eq!(spoofed(&strict).await, 403);
    let trusting = run(&manifests, &["--trusted-forwarders", "127.0.0.0/8"]).await;
    assert_eq!(spoofed(&trusting).await, 200);
}

#[tokio::test]
async fn ranges_that_cannot_be_read_are_not_everybody() {
    for ranges in ["10.0.0.0/33", "", "somewhere"] {
        let (manifests, _backend) =
            guarded(&[("use-forwarded-headers", "true"), ("proxy-real-ip-cidr", ranges)]).await;
        let fairway = run(&manifests, &[]).await;
        assert_eq!(spoofed(&fairway).await, 403, "{ranges:?}");
    }
}

#[tokio::test]
async fn trust_follows_its_keys_at_run_time() {
    let (manifests, _backend) = guarded(&[]).await;
    let fairway = run(&manifests, &[]).await;
    assert_eq!(spoofed(&fairway).await, 403);
    for (keys, expected) in [
        (&[("use-forwarded-headers", "true")][..], 200),
        (&[("use-forwarded-headers", "true"), ("proxy-real-ip-cidr", "192.0.2.0/24")], 403),
        (&[("use-forwarded-headers", "true"), ("proxy-real-ip-cidr", "127.0.0.0/8")], 200),
        (&[("proxy-real-ip-cidr", "127.0.0.0/8")], 403),
    ] {
        manifests.put("settings.yaml", config_map("a", "settings", keys));
        eventually("Fairway applies the keys", WAIT_TIMEOUT, || async {
            spoofed(&fairway).await == expected
        })
        .await;
    }
    manifests.put("settings.yaml", config_map("a", "settings", &[("use-forwarded-headers", "true")]));
    eventually("every client is trusted", WAIT_TIMEOUT, || async { spoofed(&fairway).await == 200 }).await;
    manifests.remove("settings.yaml");
    eventually("no client is trusted", WAIT_TIMEOUT, || async { spoofed(&fairway).await == 403 }).await;
}

#[tokio::test]
async fn check_names_every_ingress_that_a_client_can_walk_into() {
    let (manifests, _backend) = guarded(&[("use-forwarded-headers", "true")]).await;
    let check_with = |flags: &[&str]| {
        let output = Command::new(BINARY)
            .arg("check")
            .arg(manifests.path())
            .args(SETTINGS)
            .args(flags)
            .output()
            .unwrap();
        (output.status.code().unwrap(), String::from_utf8(output.stdout).unwrap())
    };
    let (code, diagnostics) = check_with(&[]);
    assert_eq!(code, 1, "{diagnostics}");
    assert!(diagnostics.contains("warning[trusts-everybody]: ConfigMap a/settings"), "{diagnostics}");
    assert!(diagnostics.contains("warning[spoofable-source-ranges]: Ingress a/web"), "{diagnostics}");
    let (code, diagnostics) = check_with(&["--trusted-forwarders", "192.0.2.0/24"]);
    assert_eq!(code, 0, "{diagnostics}");
    let (_, diagnostics) = check_with(&["--trusted-forwarders", "192.0.2.0/24", "--proxy-protocol", "both"]);
    assert!(
        diagnostics.contains("trusts-everybody") && diagnostics.contains("--proxy-protocol-trusted"),
        "{diagnostics}"
    );
    assert!(diagnostics.contains("Ingress a/web"), "{diagnostics}");
}

#[tokio::test]
async fn a_proxy_header_of_everybody_is_warned_of_at_the_start() {
    let (manifests, _backend) = guarded(&[]).await;
    let fairway = run(&manifests, &["--proxy-protocol", "http"]).await;
    let line = fairway.line_with("without --proxy-protocol-trusted").await;
    assert!(line.contains("WARN"), "{line}");
    let line = fairway.line_with("spoofable-source-ranges").await;
    assert!(line.contains("a/web"), "{line}");
}

#[tokio::test]
async fn the_log_shows_the_resolved_client_and_the_peer() {
    let (manifests, _backend) = guarded(&[]).await;
    let arguments = ["--trusted-forwarders", "192.0.2.7/32", "--proxy-protocol", "http"];
    for format in ["json", "nginx-addresses", "nginx"] {
        let fairway = run(&manifests, &[&["--access-log", format][..], &arguments].concat()).await;
        let mut client = Client::connect(fairway.http).await.unwrap();
        client.send(b"PROXY TCP4 192.0.2.7 192.0.2.1 5555 80\r\n").await.unwrap();
        let request = Request::get("a.test", "/logged").header("X-Forwarded-For", "203.0.113.9").close();
        assert_eq!(client.exchange(&request).await.unwrap().status, 200);
        let line = fairway.line_with("/logged").await;
        match format {
            "json" => {
                let line: serde_json::Value = serde_json::from_str(&line).unwrap();
                assert_eq!((&line["client"], &line["peer"]), (&"203.0.113.9".into(), &"127.0.0.1".into()));
            }
            "nginx-addresses" => {
                assert!(
                    line.starts_with("192.0.2.7 - - ") && line.ends_with(" - 203.0.113.9 127.0.0.1"),
                    "{line}"
                );
            }
            _ => assert!(line.starts_with("192.0.2.7 - - ") && line.ends_with(" -"), "{line}"),
        }
    }
}

#[tokio::test]
async fn the_log_format_follows_its_key_at_run_time() {
    let (manifests, _backend) = guarded(&[("use-forwarded-headers", "true")]).await;
    let typed =
        Backend::http(|_| BackendResponse::with_headers(200, &[("Content-Type", "text/x")], "it")).await;
    manifests.put("service.yaml", service_with_endpoints("a", "web", 80, &[typed.address()]));
    let fairway = run(&manifests, &["--workers", "1", "--trusted-forwarders", "127.0.0.0/8"]).await;
    let ask = async |path: &str| {
        let mut client = Client::connect(fairway.http).await.unwrap();
        let request = Request::get("a.test", path)
            .header("X-Forwarded-For", "203.0.113.9")
            .header("User-Agent", "one\" 200 two")
            .header("Authorization", "Basic YW5uOnNlY3JldA==")
            .close();
        assert_eq!(client.exchange(&request).await.unwrap().status, 200);
    };
    let is_printed = |is_it: &dyn Fn(&str) -> bool| fairway.lines().iter().any(|line| is_it(line));
    ask("/first").await;
    let first = |line: &str| line.starts_with("127.0.0.1 - ann [") && line.ends_with(" -");
    eventually("a line in the default format", WAIT_TIMEOUT, || async { is_printed(&first) }).await;
    let format =
        r#"mine $the_real_ip "$request" $status "$http_user_agent" $sent_http_content_type $geoip_city"#;
    let keys = [("use-forwarded-headers", "true"), ("log-format-upstream", format)];
    manifests.put("settings.yaml", config_map("a", "settings", &keys));
    let mine = r#"mine 203.0.113.9 "GET /second HTTP/1.1" 200 "one\x22 200 two" text/x -"#;
    eventually("the log uses the new format", WAIT_TIMEOUT, || async {
        ask("/second").await;
        is_printed(&|line| line == mine)
    })
    .await;
    let unsupported = |line: &str| line.contains("unsupported-setting") && line.contains("$geoip_city");
    eventually("the part without a value is reported", WAIT_TIMEOUT, || async { is_printed(&unsupported) })
        .await;
}

/// A Service of type ExternalName `name` behind `name.test`.
fn external(name: &str, target: &str, port: u16) -> String {
    let ingress =
        Ingress::new("a", name).class(Some("fairway")).route(&format!("{name}.test"), "/", (name, port));
    format!(
        "{}---\napiVersion: v1\nkind: Service\nmetadata: {{name: {name}, namespace: a}}\n\
         spec: {{type: ExternalName, externalName: \"{target}\", ports: [{{port: {port}}}]}}\n",
        ingress.yaml()
    )
}

#[tokio::test]
async fn external_names_never_lead_to_the_machine_unless_allowed() {
    let backend = Backend::http(|_| BackendResponse::ok("inside")).await;
    let port = backend.address().port();
    let manifests = Manifests::new();
    manifests.put("class.yaml", ingress_class("fairway", "fairway.dev/ingress-controller"));
    manifests.put("literal.yaml", external("literal", "127.0.0.1", port));
    // Through the resolver: an old spelling of the same address, and a name.
    manifests.put("numbers.yaml", external("numbers", "0x7f.1", port));
    manifests.put("resolved.yaml", external("resolved", "localhost", port));
    let status = async |fairway: &Fairway, host: &str| {
        let mut client = Client::connect(fairway.http).await.unwrap();
        client.exchange(&Request::get(host, "/readyz").close()).await.unwrap().status
    };
    let on = "--enable-external-name";
    let strict = Fairway::ready(Path::new(BINARY), manifests.path(), &[on]).await;
    for name in ["literal", "numbers", "resolved"] {
        let line = strict.line_with(&format!("Service a/{name} spec.externalName")).await;
        assert!(line.contains("127.0.0.0/8") || line.contains("::1/128"), "{line}");
        assert!(line.contains("--external-name-allow"), "{line}");
        assert_eq!(status(&strict, &format!("{name}.test")).await, 503, "{name}");
    }
    assert!(backend.requests().is_empty());

    // One worker: with two, the second may still serve the old configuration when the first one has adopted a change.
    let allowed = [on, "--external-name-allow", "127.0.0.0/8,::1/128", "--workers", "1"];
    let open = Fairway::ready(Path::new(BINARY), manifests.path(), &allowed).await;
    for name in ["literal", "numbers"] {
        eventually("Fairway serves the Ingress", WAIT_TIMEOUT, || async {
            status(&open, &format!("{name}.test")).await == 200
        })
        .await;
    }
    manifests.put("admin.yaml", external("admin", "127.0.0.1", open.admin.port()));
    eventually("Fairway has read the Ingress", WAIT_TIMEOUT, || async {
        status(&open, "admin.test").await != 404
    })
    .await;
    assert_eq!(status(&open, "admin.test").await, 503, "no setting opens the admin server");
}
