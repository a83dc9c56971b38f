//! Sessions that end early: by their user, and by the provider.

use fairway_testkit::certificates::unverified_client_config;
use fairway_testkit::client::TlsOffer;
use fairway_testkit::tokens::{Signer, encode};
use fairway_testkit::{Client, Fairway, RawResponse, Request};
use serde_json::{Value, json};

use super::provider::{ISSUER, now};
use super::{Browser, HOST, Site, changed};

const PATH: &str = "/oauth2/backchannel-logout";
const EVENT: &str = "http://schemas.openid.net/event/backchannel-logout";

#[tokio::test]
async fn only_pages_of_the_same_host_can_log_a_user_out() {
    let site = Site::new().await;
    let fairway = site.run().await;
    let mut browser = Browser::new(&fairway);
    assert_eq!(browser.log_in(&site, "/").await.status, 302);
    let line = browser.cookie_line();
    let out = || Request::get(HOST, "/oauth2/logout").header("Cookie", &line).close();
    let origin = "https://shop.test";
    for request in [
        out(),
        out().header("Sec-Fetch-Site", "cross-site"),
        out().header("Sec-Fetch-Site", "same-site"),
        out().header("Origin", "https://evil.test"),
        out().header("Origin", "null"),
        out().header("Referer", "https://evil.test/"),
        out().header("Referer", &format!("{origin}.evil.test/")),
        Request::post(HOST, "/oauth2/logout", "")
            .header("Cookie", &line)
            .header("Sec-Fetch-Site", "none")
            .close(),
    ] {
        let response = browser.send(request.clone()).await;
        assert_eq!(response.status, 403, "{request:?}");
        assert!(browser.session_cookie().is_some());
    }
    assert_eq!(browser.send(out().header("Referer", &format!("{origin}/a"))).await.status, 302);
    assert!(browser.session_cookie().is_none());
}

async fn site() -> Site {
    let site = Site::new().await;
    site.guard("shop", &changed(|it| it["backChannelLogoutPath"] = PATH.into()));
    site
}

/// A logout token of the provider with changed claims.
fn logout_token(site: &Site, change: impl FnOnce(&mut Value)) -> String {
    let behaviour = site.provider.behaviour.lock().unwrap();
    let mut claims = json!({
        "iss": ISSUER, "aud": "shop", "iat": now(), "exp": now() + 120, "jti": "1", "events": {EVENT: {}},
    });
    change(&mut claims);
    let header =
        json!({"alg": behaviour.signer.algorithm(), "kid": behaviour.signer.key_id(), "typ": "logout+jwt"});
    behaviour.signer.token(&header, &claims)
}

fn post(body: &str) -> Request {
    Request::post(HOST, PATH, body).header("Content-Type", "application/x-www-form-urlencoded").close()
}

async fn send(fairway: &Fairway, request: &Request) -> RawResponse {
    let offer = TlsOffer::new(unverified_client_config(), HOST);
    Client::connect_tls(fairway.https, &offer).await.unwrap().exchange(request).await.unwrap()
}

async fn log_out(fairway: &Fairway, token: &str) -> RawResponse {
    send(fairway, &post(&format!("logout_token={token}"))).await
}

/// Whether both workers, which cache sessions, have dropped this one.
async fn is_logged_in(browser: &mut Browser<'_>) -> bool {
    let mut statuses = Vec::new();
    for _ in 0..8 {
        let request = browser.request("/").header("Sec-Fetch-Mode", "cors");
        statuses.push(browser.send(request).await.status);
    }
    assert!(statuses.iter().all(|status| *status == statuses[0]), "{statuses:?}");
    statuses[0] == 200
}

#[tokio::test]
async fn the_provider_ends_a_session_or_all_of_a_user() {
    let site = site().await;
    let fairway = site.run().await;
    let mut browsers = Vec::new();
    for _ in 0..3 {
        let mut browser = Browser::new(&fairway);
        assert_eq!(browser.log_in(&site, "/").await.status, 302);
        assert!(is_logged_in(&mut browser).await);
        browsers.push(browser);
    }
    // The provider's identifier of the second session.
    let token = logout_token(&site, |it| it["sid"] = "session-2".into());
    let response = log_out(&fairway, &token).await;
    assert_eq!(
        (response.status, response.header("Cache-Control")),
        (200, Some("no-store")),
        "{}",
        response.text()
    );
    let mut sessions = Vec::new();
    for browser in &mut browsers {
        sessions.push(is_logged_in(browser).await);
    }
    assert_eq!(sessions, [true, false, true]);
    let token = logout_token(&site, |it| it["sub"] = "alice".into());
    assert_eq!(log_out(&fairway, &token).await.status, 200);
    for browser in &mut browsers {
        assert!(!is_logged_in(browser).await);
    }
    // Sessions that start later, by the clock of the provider, are not affected.
    site.provider
        .change(|it| it.claims = |claims| claims["iat"] = (claims["iat"].as_u64().unwrap() + 5).into());
    assert_eq!(browsers[0].log_in(&site, "/").await.status, 302);
    assert!(is_logged_in(&mut browsers[0]).await);
    assert_eq!(log_out(&fairway, &token).await.status, 200, "repeating the logout changes nothing");
    assert!(is_logged_in(&mut browsers[0]).await);
}

#[tokio::test]
async fn only_the_provider_can_end_a_session_through_back_channel_logout() {
    let site = site().await;
    let fairway = site.run().await;
    let mut browser = Browser::new(&fairway);
    assert_eq!(browser.log_in(&site, "/").await.status, 302);
    let alice = |it: &mut Value| it["sub"] = "alice".into();
    let good = logout_token(&site, alice);
    let (message, _) = good.rsplit_once('.').unwrap();
    let with = |change: fn(&mut Value)| {
        logout_token(&site, |it| {
            it["sub"] = "alice".into();
            change(it);
        })
    };
    let other = Signer::rs256("one");
    let claims = json!({"iss": ISSUER, "aud": "shop", "sub": "alice", "iat": now(), "exp": now() + 60, "events": {EVENT: {}}});
    for (attack, token) in [
        ("an ID token", with(|it| drop(it.as_object_mut().unwrap().remove("events")))),
        ("one with a nonce", with(|it| it["nonce"] = "n".into())),
        ("another issuer", with(|it| it["iss"] = "https://evil.example".into())),
        ("another client", with(|it| it["aud"] = "other".into())),
        ("expired", with(|it| it["exp"] = 1_000_000_000.into())),
        ("no expiry", with(|it| drop(it.as_object_mut().unwrap().remove("exp")))),
        ("no time", with(|it| drop(it.as_object_mut().unwrap().remove("iat")))),
        ("not valid yet", with(|it| it["nbf"] = 9_000_000_000_u64.into())),
        ("nobody", with(|it| drop(it.as_object_mut().unwrap().remove("sub")))),
        ("another event", with(|it| it["events"] = json!({"http://schemas.openid.net/event/other": {}}))),
        ("a wrong signature", format!("{message}.{}", encode("signature"))),
        ("no signature", format!("{}.{}.", encode(r#"{"alg":"none"}"#), message.split('.').nth(1).unwrap())),
        ("signed by another", other.token(&json!({"alg": "RS256", "kid": "one"}), &claims)),
        ("no token", "a.b.c".to_owned()),
        ("nothing", String::new()),
    ] {
        let response = log_out(&fairway, &token).await;
        assert_eq!(response.status, 400, "{attack}: {}", response.text());
    }
    let form = format!("logout_token={good}");
    let json = Request::post(HOST, PATH, form.as_str()).header("Content-Type", "application/json").close();
    let get = Request::get(HOST, &format!("{PATH}?{form}")).close();
    for (attack, request, status) in [
        ("twice", post(&format!("{form}&{form}")), 400),
        ("under another name", post(&format!("token={good}")), 400),
        ("no form", json, 400),
        ("in a query", get, 400),
        ("a flood", post(&format!("{form}&a={}", "a".repeat(70_000))), 413),
    ] {
        let response = send(&fairway, &request).await;
        assert_eq!(response.status, status, "{attack}: {}", response.text());
    }
    let plain = Client::connect(fairway.http).await.unwrap().exchange(&post(&form)).await.unwrap();
    assert_eq!(plain.status, 403, "over plain HTTP");
    assert!(is_logged_in(&mut browser).await);
    assert_eq!(site.backend.requests().iter().filter(|request| request.target == PATH).count(), 0);
    assert_eq!(log_out(&fairway, &good).await.status, 200, "the session is still valid");
    assert!(!is_logged_in(&mut browser).await);
}
