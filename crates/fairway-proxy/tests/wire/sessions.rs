//! Session affinity over both versions of HTTP and all workers: one cookie, one endpoint.

use std::sync::Arc;

use fairway_model::{
    SameSite, SecureCookie, SessionCarrier, SessionCookie, SessionKey, SessionLifetime, SessionStart,
    Stickiness, StickyFailure,
};
use fairway_testkit::{Backend, BackendResponse, Request};

use crate::spread::Browser;
use crate::support::{HOST, Running, Setup, with_session};

/// Backends that respond with their number, behind two workers.
async fn several() -> (Vec<Backend>, Running) {
    let mut backends = Vec::new();
    for number in 0..4 {
        backends.push(Backend::http(move |_| BackendResponse::ok(["0", "1", "2", "3"][number])).await);
    }
    let addresses: Vec<_> = backends.iter().map(Backend::address).collect();
    let setup = Setup::to(&addresses).options(|options| options.workers = 2);
    let cookie = SessionCookie {
        name: "route".into(),
        backend: "b".into(),
        stickiness: Stickiness::Balanced,
        path: None,
        domain: None,
        expires: None,
        max_age: None,
        secure: SecureCookie::OverTls,
        same_site: SameSite::Lax,
        on_failure: StickyFailure::Returns,
        begins: SessionStart::Here,
        carrier: SessionCarrier::Cookie,
        lifetime: SessionLifetime::default(),
    };
    let proxy = setup.start_by(&with_session(setup.config(), &SessionKey::Cookie(Arc::new(cookie))));
    (backends, proxy)
}

#[tokio::test]
async fn an_http2_session_continues_over_other_connections_workers_and_versions() {
    let (_backends, proxy) = several().await;
    for _ in 0..4 {
        let mut browser = Browser::secure(&proxy).await;
        let (status, owner) = browser.get("/").await;
        assert_eq!(status, 200);
        let set_cookie = browser.field("set-cookie").expect("a session begins");
        let (session, attributes) = set_cookie.split_once("; ").unwrap();
        assert_eq!(attributes, "Path=; Secure; HttpOnly; SameSite=Lax");
        // Cookies may be sent one by one (RFC 9113 §8.2.3).
        let crumbs = [("cookie", "a=b"), ("cookie", session), ("cookie", "c=d")];
        for _ in 0..5 {
            assert_eq!(browser.get_with("/", &crumbs).await, (200, owner.clone()));
            assert_eq!(browser.field("set-cookie"), None);
            let mut another = Browser::clear(&proxy).await;
            assert_eq!(another.get_with("/", &crumbs).await, (200, owner.clone()));
            let request = Request::get(HOST, "/").header("Cookie", &format!("a=b; {session}"));
            let response = proxy.client().await.exchange(&request).await.unwrap();
            assert_eq!(response.body, owner);
            assert_eq!(response.header_values("set-cookie"), Vec::<&str>::new());
        }
    }
}
