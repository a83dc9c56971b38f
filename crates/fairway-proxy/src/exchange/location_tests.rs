//! The order and scope of the steps of an nginx location, in virtual time.

#![allow(clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

use std::net::SocketAddr;
use std::sync::Arc;

use fairway_model::{
    AccessList, AuthCookies, AuthService, Config, Deny, ErrorPages, ExternalAuth, Forwarding, Guard,
    HeaderEdit, HeaderField, HeaderTemplate, Match, PathForm, PathMatch, PathRewrite, Phases, Redirect,
    RedirectTarget, ResponseEdit, Rule, Template, Timeouts, VirtualHost,
};
use tokio::io::{AsyncWriteExt, DuplexStream};

use crate::testing::{
    GET_REQUEST, OK_RESPONSE, ScriptedConnect, TestWorker, config_with_phases, read_head, run_local,
};

const TOO_LARGE: &str = "POST /x?q=1 HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nbody";
const UNAUTHORIZED: &[u8] = b"HTTP/1.1 401 No\r\nContent-Length: 0\r\n\r\n";

async fn saying(response: &'static [u8], mut stream: DuplexStream) {
    while read_head(&mut stream).await {
        if stream.write_all(response).await.is_err() {
            return;
        }
    }
}

fn always(response: &'static [u8]) -> impl Fn(SocketAddr) -> ScriptedConnect + Copy + 'static {
    move |_| ScriptedConnect::served_by(move |stream| saying(response, stream))
}

fn elsewhere() -> Phases {
    Phases::from(Guard::Redirect(Redirect { status: 302, target: RedirectTarget::Url("http://b/".into()) }))
}

/// Refuses all clients.
fn closed() -> Phases {
    Phases::from(Guard::Access(AccessList { deny: vec!["0.0.0.0/0".parse().unwrap()], allow: Vec::new() }))
}

fn own_field() -> Phases {
    let set = vec![HeaderField { name: "X-Own".into(), value: "1".into() }];
    Phases::from(ResponseEdit::Headers(HeaderEdit { set, ..HeaderEdit::default() }))
}

fn field_of_all() -> Phases {
    Phases::from(ResponseEdit::Fields(
        [HeaderTemplate { name: "X-Of-All".into(), value: Template::text("1") }].into(),
    ))
}

/// The configuration of a Gateway API rule.
fn of_gateway(endpoints: usize, edit: impl Fn(&mut Rule)) -> Config {
    let mut config = config_with_phases(endpoints, Vec::new());
    let hosts: Vec<VirtualHost> = config.hosts.values().map(|host| VirtualHost::clone(host)).collect();
    for mut changed in hosts {
        changed.path_form = PathForm::Normalised;
        for route in &mut changed.routes {
            Arc::make_mut(route).rules.iter_mut().for_each(&edit);
        }
        config.hosts.insert(changed.key.clone(), Arc::new(changed));
    }
    config
}

async fn status(stage: &TestWorker, request: impl AsRef<[u8]>) -> u16 {
    stage.client().request(request).await.unwrap().status
}

async fn text(stage: &TestWorker, request: impl AsRef<[u8]>) -> String {
    let mut client = stage.client();
    client.send(request).await;
    client.response_text().await
}

#[tokio::test(start_paused = true)]
async fn an_oversized_body_is_refused_before_all_but_host_wide_checks() {
    run_local(async {
        let limited = |filters: Vec<Phases>| {
            move |rule: &mut Rule| {
                Arc::make_mut(&mut rule.policy).max_body = Some(3);
                rule.phases = Phases::from_iter(filters.clone()).shared();
            }
        };
        for filter in [elsewhere(), closed(), Phases::from(Guard::NeedsEndpoint)] {
            let stage = TestWorker::with_rule(0, limited(vec![filter]), always(OK_RESPONSE));
            assert_eq!(status(&stage, TOO_LARGE).await, 413);
        }
        let nobody = Phases::from(Guard::Deny(Deny { status: 403, when: vec![Match::default()] }));
        let stage = TestWorker::with_rule(1, limited(vec![nobody, elsewhere()]), always(OK_RESPONSE));
        assert_eq!(status(&stage, TOO_LARGE).await, 403);
        let stage = TestWorker::with_config(&of_gateway(1, limited(vec![elsewhere()])), always(OK_RESPONSE));
        assert_eq!(status(&stage, TOO_LARGE).await, 302);
        let stage = TestWorker::with_config(&of_gateway(1, limited(Vec::new())), always(OK_RESPONSE));
        assert_eq!(status(&stage, TOO_LARGE).await, 413);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn guards_do_not_matter_while_there_is_no_endpoint() {
    run_local(async {
        for (endpoints, filters, expected) in [
            (0, vec![Phases::from(Guard::NeedsEndpoint), closed()], 503),
            (1, vec![Phases::from(Guard::NeedsEndpoint), closed()], 403),
            (0, vec![closed()], 403),
            (0, vec![elsewhere(), Phases::from(Guard::NeedsEndpoint)], 302),
            (1, vec![Phases::from(Guard::NeedsEndpoint)], 200),
        ] {
            let stage = TestWorker::with_phases(endpoints, filters, always(OK_RESPONSE));
            assert_eq!(status(&stage, GET_REQUEST).await, expected);
        }
        let to = fairway_model::Fallback { backend: "a".into(), fields: Vec::new() };
        let filters = vec![Phases::from(Guard::NeedsEndpoint), closed(), Phases::from(to)];
        let stage = TestWorker::with_phases(0, filters, always(OK_RESPONSE));
        assert_eq!(status(&stage, GET_REQUEST).await, 403, "somebody serves");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn nginx_control_headers_of_backends_are_removed() {
    const RESPONSE: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nX-Accel-Redirect: /x\r\nx-accel-expires: 5\r\n\
        X-Accel-Limit-Rate: 1\r\nX-Accel-Buffering: no\r\nX-Accel-Charset: utf-8\r\nX-Pad: 1\r\nX-Padding: 1\r\n\r\nok";
    run_local(async {
        let stage = TestWorker::with_phases(1, Vec::new(), always(RESPONSE));
        let of_ingress = text(&stage, GET_REQUEST).await.to_ascii_lowercase();
        assert!(!of_ingress.contains("x-accel-") && !of_ingress.contains("x-pad:"), "{of_ingress}");
        assert!(of_ingress.contains("x-padding: 1"), "{of_ingress}");
        let stage = TestWorker::with_config(&of_gateway(1, |_| {}), always(RESPONSE));
        let of_gateway = text(&stage, GET_REQUEST).await;
        assert!(
            of_gateway.contains("X-Accel-Redirect: /x") && of_gateway.contains("X-Pad: 1"),
            "{of_gateway}"
        );
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_page_whose_service_has_no_endpoint_is_404_without_headers_of_the_rule() {
    run_local(async {
        let pages = ErrorPages { statuses: vec![403], backend: Some("nobody".into()), fields: Vec::new() };
        let filters = vec![Phases::from(pages), closed(), own_field(), field_of_all()];
        let stage = TestWorker::with_phases(1, filters, always(OK_RESPONSE));
        let text = text(&stage, GET_REQUEST).await;
        assert!(text.starts_with("HTTP/1.1 404 "), "{text}");
        assert!(text.contains("X-Of-All: 1") && !text.contains("X-Own"), "{text}");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn the_way_to_the_sign_in_page_has_no_fields_of_the_rules_own() {
    run_local(async {
        let auth = ExternalAuth {
            service: AuthService::Backend { backend: "a".into(), host: "auth.test".into() },
            method: Some("GET".into()),
            target: Template::text("/"),
            fields: Vec::new(),
            redirect: None,
            sign_in: Some(Template::text("http://sign-in.test/")),
            cookies: AuthCookies::OfSuccess,
            copied: Vec::new(),
            timeouts: Timeouts::default(),
            kept: None,
            filter: None,
        };
        let filters = vec![Phases::from(Guard::ExternalAuth(Box::new(auth))), own_field(), field_of_all()];
        let stage = TestWorker::with_phases(1, filters.clone(), always(UNAUTHORIZED));
        let of_ingress = text(&stage, GET_REQUEST).await;
        assert!(of_ingress.starts_with("HTTP/1.1 302 "), "{of_ingress}");
        assert!(of_ingress.contains("X-Of-All: 1") && !of_ingress.contains("X-Own"), "{of_ingress}");
        // Its other responses have them.
        let [Guard::ExternalAuth(auth)] = &*filters[0].guards else { unreachable!("it is the first") };
        let refused = Box::new(ExternalAuth { sign_in: None, ..ExternalAuth::clone(auth) });
        let stage = TestWorker::with_phases(
            1,
            vec![Phases::from(Guard::ExternalAuth(refused)), own_field()],
            always(UNAUTHORIZED),
        );
        assert!(text(&stage, GET_REQUEST).await.contains("X-Own: 1"));
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_client_refused_for_the_whole_host_learns_nothing_of_the_rule() {
    run_local(async {
        let nobody = Phases::from(Guard::Deny(Deny { status: 403, when: vec![Match::default()] }));
        let pages = ErrorPages { statuses: vec![403], backend: Some("c".into()), fields: Vec::new() };
        let filters = vec![nobody, Phases::from(pages), own_field(), field_of_all()];
        let text = text(&TestWorker::with_phases(1, filters, always(OK_RESPONSE)), GET_REQUEST).await;
        assert!(text.starts_with("HTTP/1.1 403 "), "{text}");
        assert!(text.contains("X-Of-All: 1") && !text.contains("X-Own"), "{text}");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn health_probes_get_an_empty_200() {
    run_local(async {
        let response =
            fairway_model::FixedResponse { status: 200, reason: fairway_model::FixedResponseReason::NoRoute };
        let action = fairway_model::Action::FixedResponse(response);
        let stage = TestWorker::with_rule(1, |rule| rule.action = action, always(OK_RESPONSE));
        let mut client = stage.client();
        for _ in 0..2 {
            let response = client.request(GET_REQUEST).await.unwrap();
            assert_eq!((response.status, response.body.len()), (200, 0));
        }
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn the_page_of_a_rewritten_request_is_requested_with_its_new_query() {
    run_local(async {
        let pages = ErrorPages { statuses: vec![401], backend: Some("c".into()), fields: Vec::new() };
        let rewrite = Phases::from(Forwarding {
            path: Some(PathRewrite::Regex {
                pattern: "/x".into(),
                replacement: "/y?z=2".into(),
                ignore_case: false,
            }),
            ..Forwarding::default()
        });
        let script = |to: SocketAddr| match to.port() {
            102 => ScriptedConnect::served_by(mirroring),
            _ => always(UNAUTHORIZED)(to),
        };
        let stage = TestWorker::with_phases(1, vec![rewrite, Phases::from(pages)], script);
        let text = text(&stage, "GET /x?q=1 HTTP/1.1\r\nHost: a\r\n\r\n").await;
        assert!(text.ends_with("GET /?z=2&q=1 HTTP/1.1"), "{text}");
    })
    .await;
}

/// Responds with the request line.
async fn mirroring(mut stream: DuplexStream) {
    use tokio::io::{AsyncBufReadExt, BufReader};
    let mut lines = BufReader::new(&mut stream).lines();
    let Ok(Some(line)) = lines.next_line().await else { return };
    while let Ok(Some(field)) = lines.next_line().await {
        if field.is_empty() {
            break;
        }
    }
    let response = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{line}", line.len());
    // The test fails if it does not arrive.
    let _ = stream.write_all(response.as_bytes()).await;
}

#[tokio::test(start_paused = true)]
async fn a_line_break_in_the_path_gets_past_a_pattern_only_as_in_nginx() {
    run_local(async {
        let admin = |filters: Vec<Phases>| {
            move |rule: &mut Rule| {
                let path = PathMatch::Regex { pattern: "/admin/(.*)$".into(), ignore_case: true };
                rule.matches = vec![Match { path, ..Match::default() }];
                rule.phases = Phases::from_iter(filters.clone()).shared();
            }
        };
        let request_for = |path: &str| format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n");
        let gateway = TestWorker::with_config(&of_gateway(1, admin(Vec::new())), always(OK_RESPONSE));
        let nginx = TestWorker::with_rule(1, admin(Vec::new()), always(OK_RESPONSE));
        for (path, of_nginx) in
            [("/admin/x", 200), ("/admin/x%0a", 200), ("/admin/x%0ay", 404), ("/admin/x%0Dy", 200)]
        {
            assert_eq!(status(&gateway, request_for(path)).await, 200, "{path}");
            assert_eq!(status(&nginx, request_for(path)).await, of_nginx, "{path}");
        }
        let everything =
            |rule: &mut Rule| rule.phases = Phases::from(Guard::Deny(Deny::line_breaks())).shared();
        let strict = TestWorker::with_rule(1, everything, always(OK_RESPONSE));
        for (path, expected) in [
            ("/admin/x", 200),
            ("/admin/x?a%0ab", 200),
            ("/admin/x%250ay", 200),
            ("/admin/x%0ay", 400),
            ("/%0D", 400),
            ("/a/%0a/../b", 200),
            ("/%0d%0a", 400),
        ] {
            assert_eq!(status(&strict, request_for(path)).await, expected, "{path}");
        }
    })
    .await;
}
