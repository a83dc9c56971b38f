//! Tokens, API keys and authorization, in virtual time. Tokens expire by the real clock, in an hour.

#![allow(clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use fairway_model::{
    AnyGuard, ApiKeyAuth, ApiKeys, Authorization, AuthorizationRule, BasicAuth, ClaimHeader, ClaimMatch,
    CredentialLocation, Decision, Guard, JwtAuth, JwtIssuer, JwtKeys, LimitKey, LimitScope, Phases,
    PublishedDocument, RateLimit, Timeouts, Users,
};
use fairway_testkit::tokens::{Signer, jwk_set};
use serde_json::{Value, json};
use tokio::time::sleep;

use super::steps_tests::{ReceivedRequests, field, ok, run_ready_tasks, stage};
use crate::testing::{Client, TestWorker, run_local};

const ISSUER: &str = "https://login.test";

fn bearer() -> CredentialLocation {
    CredentialLocation::Header { name: "authorization".into(), prefix: "Bearer ".into() }
}

/// Trusts one issuer, whose keys are fetched from the backend of authentication services.
fn jwt() -> JwtAuth {
    JwtAuth {
        realm: "shop".into(),
        locations: vec![
            bearer(),
            CredentialLocation::Cookie("session".into()),
            CredentialLocation::Query("t".into()),
        ],
        skew: Duration::from_secs(30),
        issuers: vec![JwtIssuer {
            issuer: ISSUER.into(),
            audiences: vec!["shop".into()],
            keys: JwtKeys::Published(PublishedDocument {
                backend: "a".into(),
                host: "login.test".into(),
                target: "/keys".into(),
                timeouts: Timeouts::default(),
            }),
            claims: Vec::new(),
            scopes: Vec::new(),
            headers: vec![ClaimHeader { claim: "sub".into(), header: "X-User".into() }],
        }],
    }
}

fn changed(change: impl FnOnce(&mut JwtIssuer)) -> JwtAuth {
    let mut auth = jwt();
    change(&mut auth.issuers[0]);
    auth
}

fn guard(auth: JwtAuth) -> Phases {
    Phases::from(Guard::Jwt(Arc::new(auth)))
}

fn claims(additions: &Value) -> Value {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
    let mut claims = json!({"iss": ISSUER, "aud": "shop", "sub": "alice", "exp": now + 3600});
    for (name, value) in additions.as_object().unwrap() {
        claims[name] = value.clone();
    }
    claims
}

fn token(signer: &Signer, additions: &Value) -> String {
    signer.token(&json!({"alg": signer.algorithm(), "kid": signer.key_id()}), &claims(additions))
}

fn leak(text: String) -> &'static str {
    Box::leak(text.into_boxed_str())
}

/// A response of an issuer. Its connection is closed: a kept one would give the same response again.
fn response(headers: &str, body: &str) -> &'static str {
    leak(format!(
        "HTTP/1.1 200 OK\r\nConnection: close\r\n{headers}Content-Length: {}\r\n\r\n{body}",
        body.len()
    ))
}

/// A stage whose issuer sends the response in the cell, or does not respond if there is none.
fn with_issuer(phases: Vec<Phases>, keys: &Rc<Cell<Option<&'static str>>>) -> (TestWorker, ReceivedRequests) {
    let keys = Rc::clone(keys);
    stage(1, phases, move |number| match number {
        100 => keys.get(),
        _ => Some(ok()),
    })
}

fn issuing(signer: &Signer) -> Rc<Cell<Option<&'static str>>> {
    Rc::new(Cell::new(Some(response("", &jwk_set(std::slice::from_ref(signer))))))
}

fn head(fields: &str) -> String {
    format!("GET /p HTTP/1.1\r\nHost: shop.test\r\n{fields}\r\n")
}

fn with_token(token: &str) -> String {
    head(&format!("Authorization: Bearer {token}\r\n"))
}

async fn send_request(client: &mut Client, request: &str) -> String {
    client.send(request).await;
    client.response_text().await
}

async fn status(client: &mut Client, request: &str) -> u16 {
    let text = send_request(client, request).await;
    text.split(' ').nth(1).unwrap().parse().unwrap()
}

fn requests_to(received: &ReceivedRequests, number: u16) -> Vec<String> {
    received.borrow().iter().filter(|(to, _)| *to == number).map(|(_, text)| text.clone()).collect()
}

#[tokio::test(start_paused = true)]
async fn a_valid_token_passes_and_only_fairway_writes_its_claims_into_headers() {
    run_local(async {
        let signer = Signer::ed25519("one");
        let (stage, seen) = with_issuer(vec![guard(jwt())], &issuing(&signer));
        let mut client = stage.client();
        let token = token(&signer, &json!({}));
        let mallory = "x-user: mallory\r\nX_User: mallory\r\n";
        for request in [
            head(&format!("{mallory}Authorization: Bearer {token}\r\n")),
            head(&format!("{mallory}Authorization: bearer {token}\r\n")),
            head(&format!("{mallory}Cookie: a=b; session={token}\r\n")),
            head(mallory).replace("/p ", &format!("/p?a=b&t={token} ")),
        ] {
            assert_eq!(status(&mut client, &request).await, 200, "{request}");
        }
        let issuer_requests = requests_to(&seen, 100);
        assert_eq!(issuer_requests.len(), 1, "the keys are kept: {issuer_requests:?}");
        assert!(issuer_requests[0].starts_with("GET /keys HTTP/1.1\r\n"), "{issuer_requests:?}");
        assert_eq!(field(&issuer_requests[0], "Host"), Some("login.test"));
        assert_eq!(field(&issuer_requests[0], "Authorization"), None, "nobody's token goes to the issuer");
        let forwarded = requests_to(&seen, 0);
        assert_eq!(forwarded.len(), 4);
        for request in forwarded {
            assert_eq!(field(&request, "X-User"), Some("alice"), "{request}");
            assert!(!request.contains("mallory"), "{request}");
        }
        drop(client);
        run_ready_tasks().await;
        assert_eq!(stage.check_idle(), Ok(()));
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn refused_tokens_get_the_challenge_of_rfc_6750() {
    run_local(async {
        let (signer, stranger) = (Signer::ed25519("one"), Signer::ed25519("one"));
        let auth = changed(|issuer| {
            issuer.claims = vec![ClaimMatch { claim: "role".into(), values: vec!["staff".into()] }];
            issuer.scopes = vec!["read".into()];
        });
        let (stage, seen) = with_issuer(vec![guard(auth)], &issuing(&signer));
        let mut client = stage.client();
        let good = json!({"role": "staff", "scope": "write read"});
        assert_eq!(status(&mut client, &with_token(&token(&signer, &good))).await, 200);
        let twice =
            format!("Authorization: Bearer {0}\r\nAuthorization: Bearer {0}\r\n", token(&signer, &good));
        for (request, status, error, reason) in [
            (head(""), 401, None, "token_missing"),
            (head("Authorization: Basic YTpi\r\n"), 401, None, "token_missing"),
            (head(&twice), 401, Some("invalid_request"), "token_ambiguous"),
            (with_token("a.b.c"), 401, Some("invalid_token"), "token_malformed"),
            (with_token(&token(&stranger, &good)), 401, Some("invalid_token"), "token_signature"),
            (with_token(&token(&signer, &json!({"exp": 1}))), 401, Some("invalid_token"), "token_expired"),
            (with_token(&token(&signer, &json!({"iss": "x"}))), 401, Some("invalid_token"), "token_issuer"),
            (with_token(&token(&signer, &json!({"aud": "x"}))), 401, Some("invalid_token"), "token_audience"),
            (
                with_token(&token(&signer, &json!({"scope": "read"}))),
                403,
                Some("insufficient_scope"),
                "token_claim",
            ),
            (
                with_token(&token(&signer, &json!({"role": "staff"}))),
                403,
                Some("insufficient_scope"),
                "token_scope",
            ),
        ] {
            let text = send_request(&mut client, &request).await;
            assert!(text.starts_with(&format!("HTTP/1.1 {status} ")), "{reason}: {text}");
            let challenge = field(&text, "WWW-Authenticate").unwrap();
            assert!(challenge.starts_with("Bearer realm=\"shop\""), "{challenge}");
            let expected = error.map(|error| format!("error=\"{error}\""));
            assert_eq!(challenge.contains("error="), expected.is_some(), "{challenge}");
            assert!(challenge.contains(&expected.unwrap_or_default()), "{challenge}");
            assert!(text.contains(reason), "{text}");
        }
        assert_eq!(requests_to(&seen, 0).len(), 1, "the endpoint hears nothing of them");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn an_unresponsive_issuer_closes_and_is_queried_again_later() {
    let wrong = [
        None,
        Some("HTTP/1.1 500 No\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"),
        Some(
            "HTTP/1.1 302 Found\r\nConnection: close\r\nLocation: https://attacker.test/keys\r\nContent-Length: 0\r\n\r\n",
        ),
        Some(response("", "<html>")),
        Some(response("", &format!("{{\"keys\":[],\"x\":\"{}\"}}", "x".repeat(300 << 10)))),
    ];
    for wrong in wrong {
        run_local(async {
            let signer = Signer::ed25519("one");
            let keys = Rc::new(Cell::new(wrong));
            let (stage, seen) = with_issuer(vec![guard(jwt())], &keys);
            let mut client = stage.client();
            let request = with_token(&token(&signer, &json!({})));
            for _ in 0..3 {
                let text = send_request(&mut client, &request).await;
                assert!(text.starts_with("HTTP/1.1 503 ") && text.contains("keys_unavailable"), "{text}");
            }
            assert!(requests_to(&seen, 100).len() <= 1, "it is asked once");
            keys.set(issuing(&signer).get());
            sleep(Duration::from_secs(60)).await;
            assert_eq!(status(&mut stage.client(), &request).await, 200);
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn all_who_wait_for_keys_get_them_by_one_question() {
    run_local(async {
        let signer = Signer::ed25519("one");
        let (stage, seen) = with_issuer(vec![guard(jwt())], &issuing(&signer));
        let mut clients: Vec<_> = (0..20).map(|_| stage.client()).collect();
        let request = with_token(&token(&signer, &json!({})));
        for client in &mut clients {
            client.send(&request).await;
        }
        for client in &mut clients {
            assert!(client.response_text().await.starts_with("HTTP/1.1 200 "));
        }
        assert_eq!(requests_to(&seen, 100).len(), 1);
    })
    .await;
}

/// The issuer publishes a new key and signs with it at once, contrary to good practice; the old one is removed an hour later.
#[tokio::test(start_paused = true)]
async fn a_rotated_key_refuses_no_valid_token() {
    run_local(async {
        let (old, new) = (Signer::ed25519("old"), Signer::ed25519("new"));
        let keys = issuing(&old);
        let (stage, seen) = with_issuer(vec![guard(jwt())], &keys);
        let mut client = stage.client();
        let (with_old, with_new) =
            (with_token(&token(&old, &json!({}))), with_token(&token(&new, &json!({"sub": "bob"}))));
        assert_eq!(status(&mut client, &with_old).await, 200);
        sleep(Duration::from_secs(10)).await;
        let both = json!({"keys": [old.public(), new.public()]}).to_string();
        keys.set(Some(response("Cache-Control: public, max-age=3600\r\n", &both)));
        for request in [&with_new, &with_old, &with_new] {
            assert_eq!(status(&mut client, request).await, 200);
        }
        assert_eq!(requests_to(&seen, 100).len(), 2, "the new key was asked for once");
        keys.set(issuing(&new).get());
        sleep(Duration::from_secs(3600)).await;
        let mut client = stage.client();
        // A due document is fetched in the background of the request that notices.
        assert_eq!(status(&mut client, &with_new).await, 200);
        run_ready_tasks().await;
        assert_eq!(status(&mut client, &with_old).await, 401, "a key that was withdrawn is forgotten");
        assert_eq!(status(&mut client, &with_new).await, 200);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn unknown_keys_ask_the_issuer_once_in_an_interval_whatever_clients_send() {
    run_local(async {
        let signer = Signer::ed25519("one");
        let (stage, seen) = with_issuer(vec![guard(jwt())], &issuing(&signer));
        let mut client = stage.client();
        assert_eq!(status(&mut client, &with_token(&token(&signer, &json!({})))).await, 200);
        sleep(Duration::from_secs(6)).await;
        for _ in 0..50 {
            let stranger = Signer::ed25519("other");
            assert_eq!(status(&mut client, &with_token(&token(&stranger, &json!({})))).await, 401);
        }
        assert_eq!(requests_to(&seen, 100).len(), 2);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn keys_stay_good_while_their_issuer_is_away() {
    run_local(async {
        let signer = Signer::ed25519("one");
        let keys = issuing(&signer);
        let (stage, _) = with_issuer(vec![guard(jwt())], &keys);
        // Clients that wait this long are closed.
        let request = |number: u32| with_token(&token(&signer, &json!({"n": number})));
        assert_eq!(status(&mut stage.client(), &request(0)).await, 200);
        keys.set(None);
        for hour in 1..24 {
            sleep(Duration::from_secs(3600)).await;
            let mut client = stage.client();
            for number in 0..2 {
                assert_eq!(status(&mut client, &request(2 * hour + number)).await, 200, "{hour}");
            }
        }
        sleep(Duration::from_secs(7200)).await;
        for number in 0..2 {
            assert_eq!(status(&mut stage.client(), &request(100 + number)).await, 503);
        }
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn two_guards_may_use_the_same_api_key_and_other_credentials_are_kept() {
    run_local(async {
        let third_key = ApiKeyAuth {
            locations: vec![CredentialLocation::Header {
                name: "authorization".into(),
                prefix: "ApiKey ".into(),
            }],
            ..api_key()
        };
        let guards =
            [api_key(), api_key(), third_key].map(|auth| Phases::from(Guard::ApiKey(Arc::new(auth))));
        let (stage, seen) = stage(1, guards.into(), |_| Some(ok()));
        let key = "partner-key-of-stock";
        let request = head(&format!("X-API-Key: {key}\r\nAuthorization: ApiKey {key}\r\n"));
        assert_eq!(status(&mut stage.client(), &request).await, 200);
        let forwarded = requests_to(&seen, 0).pop().unwrap();
        assert!(!forwarded.contains(key), "{forwarded}");
        let (stage, seen) = self::stage(
            1,
            vec![Phases::from(Guard::ApiKey(Arc::new(ApiKeyAuth {
                locations: vec![
                    CredentialLocation::Header { name: "authorization".into(), prefix: "ApiKey ".into() },
                    CredentialLocation::Header { name: "x-api-key".into(), prefix: "".into() },
                ],
                ..api_key()
            })))],
            |_| Some(ok()),
        );
        let request = head(&format!("X-API-Key: {key}\r\nAuthorization: Bearer abc\r\n"));
        assert_eq!(status(&mut stage.client(), &request).await, 200);
        let forwarded = requests_to(&seen, 0).pop().unwrap();
        assert_eq!(
            (field(&forwarded, "Authorization"), field(&forwarded, "X-API-Key")),
            (Some("Bearer abc"), None)
        );
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn an_issuer_that_never_responds_delays_requests_for_a_bounded_time() {
    run_local(async {
        let signer = Signer::ed25519("one");
        let (stage, _) = with_issuer(vec![guard(jwt())], &Rc::new(Cell::new(Some(""))));
        let began = tokio::time::Instant::now();
        assert_eq!(status(&mut stage.client(), &with_token(&token(&signer, &json!({})))).await, 503);
        assert!(began.elapsed() <= Duration::from_secs(12), "{:?}", began.elapsed());
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn the_issuer_gets_no_client_headers() {
    run_local(async {
        let signer = Signer::ed25519("one");
        let (stage, seen) = with_issuer(vec![guard(jwt())], &issuing(&signer));
        assert_eq!(status(&mut stage.client(), &with_token(&token(&signer, &json!({})))).await, 200);
        let issuer_requests = requests_to(&seen, 100).pop().unwrap();
        assert!(!issuer_requests.contains("192.0.2."), "{issuer_requests}");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_client_that_leaves_does_not_end_the_question_of_others() {
    run_local(async {
        let signer = Signer::ed25519("one");
        let (stage, seen) = with_issuer(vec![guard(jwt())], &issuing(&signer));
        let request = with_token(&token(&signer, &json!({})));
        let (mut leaving, mut staying) = (stage.client(), stage.client());
        leaving.send(&request).await;
        staying.send(&request).await;
        drop(leaving);
        assert!(staying.response_text().await.starts_with("HTTP/1.1 200 "));
        assert_eq!(requests_to(&seen, 100).len(), 1);
    })
    .await;
}

fn api_key() -> ApiKeyAuth {
    let location = |name: &str| CredentialLocation::Header { name: name.into(), prefix: "".into() };
    let keys = [("partner-key-of-billing", "billing"), ("partner-key-of-stock", "stock")];
    ApiKeyAuth {
        policy: "keys".into(),
        locations: vec![location("x-api-key"), CredentialLocation::Query("key".into())],
        client_header: Some("X-Client".into()),
        keys: ApiKeys::new(keys.map(|(key, client)| (fairway_token::digest(key.as_bytes()), client.into()))),
    }
}

#[tokio::test(start_paused = true)]
async fn an_api_key_passes_and_is_replaced_by_its_client_name() {
    run_local(async {
        let (stage, seen) = stage(1, vec![Phases::from(Guard::ApiKey(Arc::new(api_key())))], |_| Some(ok()));
        let mut client = stage.client();
        let key = "X-API-Key: partner-key-of-billing\r\n";
        assert_eq!(status(&mut client, &head(&format!("x-client: stock\r\n{key}"))).await, 200);
        let by_query = head("X_Client: stock\r\n").replace("/p ", "/p?key=partner-key-of-stock ");
        assert_eq!(status(&mut client, &by_query).await, 200);
        for (request, reason) in [
            (head(""), "api_key_missing"),
            (head("X-API-Key: \r\n"), "api_key_unknown"),
            (head("X-API-Key: partner-key-of-billin\r\n"), "api_key_unknown"),
            (head("X-API-Key: PARTNER-KEY-OF-BILLING\r\n"), "api_key_unknown"),
            (head(&format!("{key}X-API-Key: partner-key-of-stock\r\n")), "api_key_ambiguous"),
        ] {
            let text = send_request(&mut client, &request).await;
            assert!(text.starts_with("HTTP/1.1 401 ") && text.contains(reason), "{reason}: {text}");
            assert!(field(&text, "WWW-Authenticate").is_some(), "{text}");
        }
        let forwarded = requests_to(&seen, 0);
        let clients: Vec<_> = forwarded.iter().map(|request| field(request, "X-Client")).collect();
        assert_eq!(clients, [Some("billing"), Some("stock")]);
        assert!(forwarded.iter().all(|request| field(request, "X-API-Key").is_none()));
    })
    .await;
}

fn authorize(rules: Vec<AuthorizationRule>) -> Phases {
    Phases::from(Guard::Authorize(Arc::new(Authorization { rules })))
}

#[tokio::test(start_paused = true)]
async fn the_first_matching_rule_decides_about_authorization() {
    run_local(async {
        let signer = Signer::ed25519("one");
        let is = |claim: &str, value: &str| ClaimMatch { claim: claim.into(), values: vec![value.into()] };
        let rules = vec![
            AuthorizationRule {
                claims: vec![is("blocked", "true")],
                ..AuthorizationRule::new(Decision::Deny)
            },
            AuthorizationRule {
                methods: vec!["GET".into()],
                scopes: vec!["read".into()],
                ..AuthorizationRule::new(Decision::Allow)
            },
            AuthorizationRule {
                claims: vec![is("realm.roles", "admin")],
                ..AuthorizationRule::new(Decision::Allow)
            },
        ];
        let (stage, _) = with_issuer(vec![guard(jwt()), authorize(rules)], &issuing(&signer));
        let mut client = stage.client();
        let post = |token: &str| with_token(token).replace("GET", "DELETE");
        let reader = token(&signer, &json!({"scope": "read"}));
        let admin = token(&signer, &json!({"realm": {"roles": ["user", "admin"]}}));
        let blocked = token(&signer, &json!({"realm": {"roles": ["admin"]}, "blocked": true}));
        for (request, expected) in [
            (with_token(&reader), 200),
            (post(&reader), 403),
            (with_token(&admin), 200),
            (post(&admin), 200),
            (post(&blocked), 403),
            (with_token(&token(&signer, &json!({}))), 403),
        ] {
            assert_eq!(status(&mut client, &request).await, expected, "{request}");
        }
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn one_of_several_guards_suffices_and_the_others_add_no_challenge() {
    run_local(async {
        let signer = Signer::ed25519("one");
        let basic = BasicAuth {
            policy: "users".into(),
            realm: "office".into(),
            users: Users::new([("alice".into(), "{PLAIN}x".into())]),
        };
        let any = AnyGuard {
            jwt: Some(Arc::new(jwt())),
            api_key: Some(Arc::new(api_key())),
            basic: Some(basic),
            ..AnyGuard::default()
        };
        let (stage, seen) = with_issuer(vec![Phases::from(Guard::Any(Box::new(any)))], &issuing(&signer));
        let mut client = stage.client();
        let forged = "X-User: mallory\r\nX-Client: mallory\r\n";
        let bearer = format!("Authorization: Bearer {}\r\n", token(&signer, &json!({})));
        for (credential, user, of_key) in [
            (bearer.as_str(), Some("alice"), None),
            ("X-API-Key: partner-key-of-stock\r\n", None, Some("stock")),
            ("Authorization: Basic YWxpY2U6eA==\r\n", None, None),
        ] {
            let before = requests_to(&seen, 0).len();
            assert_eq!(
                status(&mut client, &head(&format!("{forged}{credential}"))).await,
                200,
                "{credential}"
            );
            let forwarded = requests_to(&seen, 0)[before].clone();
            assert_eq!(
                (field(&forwarded, "X-User"), field(&forwarded, "X-Client")),
                (user, of_key),
                "{forwarded}"
            );
        }
        let text = send_request(&mut client, &head(forged)).await;
        assert!(text.starts_with("HTTP/1.1 401 "), "{text}");
        assert_eq!(field(&text, "WWW-Authenticate"), Some("Basic realm=\"office\""));
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn rates_are_counted_by_claim_and_by_client_of_a_key() {
    run_local(async {
        let signer = Signer::ed25519("one");
        let limit = |key| {
            Phases::from(Guard::RateLimit(RateLimit {
                policy: "p".into(),
                requests: 1,
                per: Duration::from_secs(60),
                burst: 1,
                status: 429,
                exempt: Vec::new(),
                key,
                scope: LimitScope::Replica,
            }))
        };
        let by_tenant = vec![guard(jwt()), limit(LimitKey::Claim("tenant".into()))];
        let (stage, _) = with_issuer(by_tenant, &issuing(&signer));
        let mut client = stage.client();
        let token_for =
            |tenant: &str, user: &str| with_token(&token(&signer, &json!({"tenant": tenant, "sub": user})));
        for (request, expected) in [
            (token_for("a", "1"), 200),
            (token_for("a", "2"), 200),
            (token_for("a", "3"), 429),
            (token_for("b", "4"), 200),
            (token_for("b", "4"), 200),
            (token_for("b", "4"), 429),
        ] {
            assert_eq!(status(&mut client, &request).await, expected, "{request}");
        }
        let by_client = vec![Phases::from(Guard::ApiKey(Arc::new(api_key()))), limit(LimitKey::ApiClient)];
        let (stage, _) = self::stage(1, by_client, |_| Some(ok()));
        let mut client = stage.client();
        let key_of = |client: &str| head(&format!("X-API-Key: partner-key-of-{client}\r\n"));
        for (who, expected) in [("billing", 200), ("billing", 200), ("billing", 429), ("stock", 200)] {
            assert_eq!(status(&mut client, &key_of(who)).await, expected, "{who}");
        }
    })
    .await;
}
