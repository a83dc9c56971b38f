//! Settings that admit more or fewer headers and clients: names with other bytes, another header with the client's address,
//! blocked clients, and refused TLS names.

use std::sync::Arc;

use fairway_model::{
    AccessList, BlockedClients, ForwardedTrust, Guard, HeaderEdit, HeaderField, HeaderNames, HostPattern,
    Listener, Phases, RequestEdit, Settings, ValueTest, WildcardSpan,
};
use fairway_testkit::certificates::unverified_client_config;
use fairway_testkit::client::TlsOffer;
use fairway_testkit::{Authority, Backend, BackendResponse, Client, RecordedRequest, Request};

use crate::support::{HOST, Running, Setup, certificate};

/// The status of a request with these headers, and what the endpoint received.
async fn send(setup: impl Fn(Setup) -> Setup, fields: &[(&str, &str)]) -> (u16, Option<RecordedRequest>) {
    let backend = Backend::http(|_| BackendResponse::ok("")).await;
    let proxy: Running = setup(Setup::to(&[backend.address()])).start();
    let request =
        fields.iter().fold(Request::get(HOST, "/"), |request, (name, value)| request.header(name, value));
    let status = proxy.client().await.exchange(&request).await.unwrap().status;
    (status, backend.requests().pop())
}

async fn received_by_endpoint(setup: impl Fn(Setup) -> Setup, fields: &[(&str, &str)]) -> RecordedRequest {
    let (status, request) = send(setup, fields).await;
    assert_eq!(status, 200, "{fields:?}");
    request.unwrap()
}

fn named(names: HeaderNames) -> impl Fn(Setup) -> Setup {
    move |setup| setup.settings(|settings| settings.downstream.header_names = names)
}

fn trusted(settings: &mut Settings) {
    settings.forwarded.ranges = vec!["127.0.0.0/8".parse().unwrap()];
}

/// The trusted ranges, and the header with the address.
fn by_header(ranges: &str, header: &str) -> ForwardedTrust {
    ForwardedTrust {
        ranges: vec![ranges.parse().unwrap()],
        header: Some(header.into()),
        ..ForwardedTrust::default()
    }
}

#[tokio::test]
async fn names_with_other_bytes_pass_as_far_as_the_settings_say() {
    for (names, expected) in [
        (HeaderNames::Plain, [false, false]),
        (HeaderNames::Underscores, [true, false]),
        (HeaderNames::Any, [true, true]),
    ] {
        let request =
            received_by_endpoint(named(names), &[("x_team", "a"), ("x.team", "b"), ("X-Team", "c")]).await;
        let has = |name: &str| request.header(name).is_some();
        assert_eq!([has("x_team"), has("x.team")], expected, "{names:?}");
        assert!(has("X-Team"));
    }
}

/// Spellings of proxies' headers, of hop-by-hop headers, and of headers that Fairway writes.
const SPELLINGS: [&str; 12] = [
    "X_Forwarded_User",
    "x_forwarded_for",
    "X_Forwarded-Proto",
    "X.Forwarded.Host",
    "X_Real_IP",
    "SSL_Client_Verify",
    "X_Auth_Request_Email",
    "X_Original_URL",
    "Content_Length",
    "Transfer_Encoding",
    "X_Request_ID",
    "Keep.Alive",
];

#[tokio::test]
async fn no_spelling_of_a_claim_passes_from_anybody() {
    for names in [HeaderNames::Underscores, HeaderNames::Any] {
        for is_trusted in [false, true] {
            let fields = SPELLINGS.map(|name| (name, "1"));
            let setup = |setup| {
                let setup = named(names)(setup);
                if is_trusted { setup.settings(trusted) } else { setup }
            };
            let request = received_by_endpoint(setup, &fields).await;
            for name in SPELLINGS {
                assert_eq!(request.header(name), None, "{names:?} {name}");
            }
        }
    }
}

#[tokio::test]
async fn a_header_set_or_removed_by_a_rule_keeps_no_other_spelling() {
    let edit = HeaderEdit {
        remove: vec!["x-debug".into()],
        set: vec![HeaderField { name: "X-Tenant".into(), value: "a".into() }],
        ..HeaderEdit::default()
    };
    let setup = move |setup: Setup| {
        named(HeaderNames::Any)(setup).filter(Phases::from(RequestEdit::Headers(edit.clone())))
    };
    let fields = [("X_Tenant", "b"), ("x.tenant", "c"), ("X_Debug", "1"), ("X_Other", "d")];
    let request = received_by_endpoint(setup, &fields).await;
    assert_eq!(request.header_values("X-Tenant"), ["a"]);
    for name in ["X_Tenant", "x.tenant", "X_Debug"] {
        assert_eq!(request.header(name), None, "{name}");
    }
    assert_eq!(request.header("X_Other"), Some("d"));
}

#[tokio::test]
async fn header_names_of_a_listener_override_the_settings() {
    let backend = Backend::http(|_| BackendResponse::ok("")).await;
    let setup = Setup::to(&[backend.address()]);
    let mut config = setup.config();
    let mut listener = Listener::clone(&config.listeners["http"]);
    listener.clients.header_names = Some(HeaderNames::Underscores);
    config.listeners.insert(listener.name.clone(), Arc::new(listener));
    let proxy = setup.start_by(&config);
    let request = Request::get(HOST, "/").header("x_team", "a");
    assert_eq!(proxy.client().await.exchange(&request).await.unwrap().status, 200);
    assert_eq!(backend.requests()[0].header("x_team"), Some("a"));
}

#[tokio::test]
async fn the_client_is_whom_a_trusted_peer_names_in_the_header() {
    let setup = |setup: Setup| {
        setup.settings(|settings| settings.forwarded = by_header("127.0.0.0/8", "cf-connecting-ip"))
    };
    for (fields, expected) in [
        (&[("CF-Connecting-IP", "203.0.113.9"), ("X-Forwarded-For", "198.51.100.7")][..], "203.0.113.9"),
        (&[("CF-Connecting-IP", "2001:db8::9")], "2001:db8::9"),
        (&[("CF-Connecting-IP", "198.51.100.7"), ("CF-Connecting-IP", "203.0.113.9")], "203.0.113.9"),
        (&[("X-Forwarded-For", "203.0.113.9")], "127.0.0.1"),
        (&[("CF-Connecting-IP", "nobody")], "unknown"),
        (&[("CF-Connecting-IP", "")], "unknown"),
    ] {
        let request = received_by_endpoint(setup, fields).await;
        assert_eq!(request.header_values("X-Forwarded-For"), [expected], "{fields:?}");
        assert_eq!(request.header_values("X-Real-IP"), [expected], "{fields:?}");
    }
    let fields = [("CF-Connecting-IP", "203.0.113.9"), ("X-Forwarded-Proto", "https")];
    let request = received_by_endpoint(setup, &fields).await;
    assert_eq!(request.header("X-Forwarded-Proto"), Some("https"));
    assert_eq!(request.header("CF-Connecting-IP"), Some("203.0.113.9"));
}

#[tokio::test]
async fn an_untrusted_peer_names_no_client_in_any_spelling_of_the_header() {
    for names in [HeaderNames::Plain, HeaderNames::Underscores, HeaderNames::Any] {
        let setup = |setup: Setup| {
            let trust = by_header("192.0.2.0/24", "true-client-ip");
            named(names)(setup).settings(|settings| settings.forwarded = trust)
        };
        let spellings = ["True-Client-IP", "TRUE-CLIENT-IP", "True_Client_IP", "true.client.ip"];
        let request = received_by_endpoint(setup, &spellings.map(|name| (name, "203.0.113.9"))).await;
        assert_eq!(request.header_values("X-Real-IP"), ["127.0.0.1"]);
        for name in spellings {
            assert_eq!(request.header(name), None, "{names:?} {name}");
        }
    }
}

#[tokio::test]
async fn access_lists_see_the_address_of_the_header() {
    let setup = |setup: Setup| {
        let allow = vec!["203.0.113.0/24".parse().unwrap()];
        setup
            .settings(|settings| settings.forwarded = by_header("127.0.0.0/8", "x-client"))
            .filter(Phases::from(Guard::Access(AccessList { allow, deny: Vec::new() })))
    };
    for (value, status) in [("203.0.113.9", 200), ("198.51.100.7", 403), ("127.0.0.1", 403), ("x", 403)] {
        assert_eq!(send(setup, &[("X-Client", value)]).await.0, status, "{value}");
    }
}

#[tokio::test]
async fn peers_may_be_believed_about_the_address_alone() {
    let setup = |setup: Setup| {
        setup.settings(|settings| {
            trusted(settings);
            settings.forwarded.address_only = true;
        })
    };
    let fields = [
        ("X-Forwarded-For", "203.0.113.9"),
        ("X-Forwarded-Proto", "https"),
        ("X-Forwarded-Host", "evil.example"),
        ("X-Forwarded-User", "admin"),
    ];
    let request = received_by_endpoint(setup, &fields).await;
    assert_eq!(request.header("X-Real-IP"), Some("203.0.113.9"));
    assert_eq!(request.header("X-Forwarded-Proto"), Some("http"));
    assert_eq!(request.header("X-Forwarded-Host"), Some(HOST));
    assert_eq!(request.header("X-Forwarded-User"), None);
}

fn blocking(setup: Setup) -> Setup {
    let blocked = BlockedClients {
        user_agents: vec![
            ValueTest::AnyCase("Bad Bot".into()),
            ValueTest::Found { pattern: "curl".into(), ignore_case: true },
        ],
        referers: vec![ValueTest::Found { pattern: "^https?://spam\\.".into(), ignore_case: false }],
    };
    setup.settings(|settings| settings.blocked = blocked.if_not_empty())
}

#[tokio::test]
async fn a_blocked_client_gets_403_and_no_endpoint_sees_it() {
    for fields in [
        &[("User-Agent", "bad bot")][..],
        &[("User-Agent", "x CURL/8")],
        &[("Referer", "https://spam.test/")],
        &[("User-Agent", "good"), ("User-Agent", "curl")],
    ] {
        let (status, seen) = send(blocking, fields).await;
        assert_eq!((status, seen.is_some()), (403, false), "{fields:?}");
    }
    for fields in [&[][..], &[("User-Agent", "good")], &[("Referer", "https://a.test/?https://spam.test/")]] {
        assert_eq!(send(blocking, fields).await.0, 200, "{fields:?}");
    }
}

#[tokio::test]
async fn a_blocked_client_is_refused_before_a_host_is_looked_for_and_may_go_on_afterwards() {
    let backend = Backend::http(|_| BackendResponse::ok("")).await;
    let proxy = blocking(Setup::to(&[backend.address()])).start();
    let mut client = proxy.client().await;
    let blocked = Request::get("nobody.test", "/").header("User-Agent", "curl");
    assert_eq!(client.exchange(&blocked).await.unwrap().status, 403);
    assert_eq!(client.exchange(&Request::get(HOST, "/")).await.unwrap().status, 200);
    proxy.expect_metric("fairway_faults_total{reason=\"denied\"}", 1).await;
}

/// Why the handshake for `name`, or without a name, fails; `None` if it succeeds.
async fn refusal(proxy: &Running, name: Option<&str>) -> Option<String> {
    let offer = TlsOffer::new(unverified_client_config(), name.unwrap_or(HOST));
    let offer = if name.is_some() { offer } else { offer.without_sni() };
    Client::connect_tls(proxy.https, &offer).await.err().map(|error| error.to_string())
}

#[tokio::test]
async fn a_name_that_no_host_has_is_refused_where_the_settings_say_so() {
    let backend = Backend::http(|_| BackendResponse::ok("")).await;
    let leaf = Authority::new("test").leaf(&["a.example.com"]);
    let mut setup = Setup::to(&[backend.address()]);
    let exact = HostPattern::Exact("a.example.com".into());
    let wildcard = HostPattern::Wildcard { suffix: "example.org".into(), span: WildcardSpan::OneLabel };
    setup.hosts =
        vec![(exact, certificate("default/one", &leaf)), (wildcard, certificate("default/two", &leaf))];
    let strict = setup.clone().settings(|settings| settings.downstream.reject_unknown_names = true).start();
    for known in ["a.example.com", "b.example.org"] {
        assert_eq!(refusal(&strict, Some(known)).await, None, "{known}");
    }
    for unknown in [Some("b.example.com"), Some("a.b.example.org"), Some("example.org"), None] {
        let why = refusal(&strict, unknown).await.unwrap_or_default();
        assert!(why.contains("UnrecognisedName"), "{unknown:?}: {why}");
    }
    assert_eq!(refusal(&setup.start(), None).await, None);
}
