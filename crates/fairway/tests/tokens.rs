//! `fairway run` as a process: clients that pass by a JSON Web Token or an API key, and what they are allowed to do.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};

use fairway_testkit::manifests::{Ingress, Manifests, config_map, ingress_class, service_with_endpoints};
use fairway_testkit::tokens::{Signer, jwk_set};
use fairway_testkit::wait::{WAIT_TIMEOUT, eventually};
use fairway_testkit::{Backend, BackendResponse, Client, Fairway, RawResponse, Request};
use serde_json::{Value, json};

const BINARY: &str = env!("CARGO_BIN_EXE_fairway");
const ISSUER: &str = "https://login.example.com/realms/shop";
const KEYS_URL: &str = "http://login.auth.svc.cluster.local:81/realms/shop/certs";

/// A backend, an issuer that publishes keys, and the Ingresses in front of the backend.
struct Site {
    manifests: Manifests,
    backend: Backend,
    issuer: Backend,
    keys: Arc<Mutex<String>>,
}

impl Site {
    async fn new(signers: &[Signer]) -> Self {
        let keys = Arc::new(Mutex::new(jwk_set(signers)));
        let backend = Backend::http(|_| BackendResponse::ok("inside")).await;
        let answered = Arc::clone(&keys);
        let issuer = Backend::http(move |_| BackendResponse::ok(&*answered.lock().unwrap())).await;
        let manifests = Manifests::new();
        manifests.put("class.yaml", ingress_class("fairway", "fairway.dev/ingress-controller"));
        manifests.put("web.yaml", service_with_endpoints("a", "web", 80, &[backend.address()]));
        manifests.put("login.yaml", service_with_endpoints("auth", "login", 81, &[issuer.address()]));
        Self { manifests, backend, issuer, keys }
    }

    /// An Ingress for `NAME.test` with these annotations of Fairway.
    fn guard(&self, name: &str, annotations: &[(&str, &Value)]) {
        let ingress = Ingress::new("a", name).class(Some("fairway"));
        let annotation = |(name, value): &(&str, &Value)| (format!("fairway.dev/{name}"), value.to_string());
        let annotations = annotations.iter().map(annotation);
        let ingress = annotations.fold(ingress, |it, (name, value)| it.annotation(&name, &value));
        let ingress = ingress.route(&format!("{name}.test"), "/", ("web", 80));
        self.manifests.put(&format!("{name}.yaml"), ingress.yaml());
    }

    async fn run(&self) -> Fairway {
        Fairway::ready(Path::new(BINARY), self.manifests.path(), &["--workers", "2"]).await
    }
}

fn jwt(keys: &Value) -> Value {
    json!({"issuers": [{
        "issuer": ISSUER, "audiences": ["shop"], "keys": keys, "claimsToHeaders": [{"claim": "sub", "header": "X-User"}],
    }]})
}

fn token(signer: &Signer, additions: &Value) -> String {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
    let mut claims = json!({"iss": ISSUER, "aud": "shop", "sub": "alice", "exp": now + 3600});
    for (name, value) in additions.as_object().unwrap() {
        claims[name] = value.clone();
    }
    signer.token(&json!({"alg": signer.algorithm(), "kid": signer.key_id()}), &claims)
}

fn request(name: &str, token: &str) -> Request {
    Request::get(&format!("{name}.test"), "/p").header("Authorization", &format!("Bearer {token}")).close()
}

async fn send_request(fairway: &Fairway, request: &Request) -> RawResponse {
    Client::connect(fairway.http).await.unwrap().exchange(request).await.unwrap()
}

#[tokio::test]
async fn tokens_are_verified_with_published_keys_and_keys_of_a_config_map() {
    let (signer, stranger) = (Signer::rs256("one"), Signer::rs256("one"));
    let good = token(&signer, &json!({}));
    let forged = token(&stranger, &json!({}));
    let keys = jwk_set(std::slice::from_ref(&signer));
    let site = Site::new(&[signer]).await;
    site.manifests.put("keys.yaml", config_map("a", "keys", &[("jwks.json", &keys)]));
    site.guard("published", &[("jwt", &jwt(&json!({"url": KEYS_URL})))]);
    site.guard("inline", &[("jwt", &jwt(&json!({"ref": {"kind": "ConfigMap", "name": "keys"}})))]);
    let fairway = site.run().await;
    for name in ["published", "inline"] {
        assert_eq!(send_request(&fairway, &request(name, &good)).await.status, 200, "{name}");
        assert_eq!(site.backend.requests().pop().unwrap().header("X-User"), Some("alice"));
        let refused = send_request(&fairway, &request(name, &forged)).await;
        assert_eq!(refused.status, 401, "{name}");
        let challenge = refused.header("WWW-Authenticate").unwrap_or_default().to_owned();
        assert!(challenge.starts_with("Bearer realm=") && challenge.contains("invalid_token"), "{challenge}");
        assert_eq!(
            send_request(&fairway, &Request::get(&format!("{name}.test"), "/p").close()).await.status,
            401
        );
    }
    assert_eq!(site.issuer.request_count(), 1, "two workers share fetched keys");
    let counted = fairway.metrics().await.sum("fairway_faults_total", &[("reason", "token_signature")]);
    assert!(counted >= 2.0, "{counted}");
}

/// Clients send requests all the time, with tokens of the old key and then of the new one, while the issuer rotates its keys.
#[tokio::test]
async fn keys_are_rotated_under_load_and_no_good_token_is_refused() {
    let (old, new) = (Signer::ed25519("old"), Signer::ed25519("new"));
    let (with_old, with_new) = (token(&old, &json!({})), token(&new, &json!({})));
    let both = json!({"keys": [old.public(), new.public()]}).to_string();
    let site = Site::new(&[old]).await;
    site.guard("app", &[("jwt", &jwt(&json!({"url": KEYS_URL})))]);
    let fairway = site.run().await;
    let requests =
        |token: &str| Request::get("app.test", "/p").header("Authorization", &format!("Bearer {token}"));
    // No connection reaches the limit of requests per connection.
    let load = async |tokens: &[&String]| {
        let mut client = Client::connect(fairway.http).await.unwrap();
        for number in 0..500 {
            let response = client.exchange(&requests(tokens[number % tokens.len()])).await.unwrap();
            assert_eq!(response.status, 200, "{number}");
        }
    };
    // For an unknown key, the issuer is queried at most every five seconds.
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(6) {
        load(&[&with_old]).await;
    }
    *site.keys.lock().unwrap() = both;
    for _ in 0..4 {
        load(&[&with_new, &with_old]).await;
    }
    assert_eq!(site.issuer.request_count(), 2);
}

#[tokio::test]
async fn api_keys_are_rotated_by_their_secret_and_never_shown() {
    const OLD: &str = "an-old-key-of-billing";
    const NEW: &str = "a-new-key-of-billing";
    let site = Site::new(&[Signer::ed25519("one")]).await;
    let secret = |entries: &str| {
        format!(
            "apiVersion: v1\nkind: Secret\nmetadata: {{name: keys, namespace: a}}\nstringData: {{{entries}}}\n"
        )
    };
    site.manifests.put("keys.yaml", secret(&format!("billing: {OLD}, stock: the-key-of-stock")));
    let auth = json!({"secretRefs": [{"name": "keys"}], "clientHeader": "X-Client"});
    let rules = json!({"rules": [
        {"action": "Allow", "methods": ["GET"], "apiKeyClients": ["billing"]},
    ]});
    site.guard("app", &[("api-key", &auth), ("authorization", &rules)]);
    let fairway = site.run().await;
    let with = |key: &str| Request::get("app.test", "/p").header("X-API-Key", key).close();
    assert_eq!(send_request(&fairway, &with(OLD)).await.status, 200);
    let received = site.backend.requests().pop().unwrap();
    assert_eq!((received.header("X-Client"), received.header("X-API-Key")), (Some("billing"), None));
    assert_eq!(
        send_request(&fairway, &with("the-key-of-stock")).await.status,
        403,
        "the client is not allowed"
    );
    assert_eq!(send_request(&fairway, &with(NEW)).await.status, 401);
    // Both keys work while the client switches from one to the other.
    let two = json!({"secretRefs": [{"name": "keys"}, {"name": "next"}], "clientHeader": "X-Client"});
    site.manifests.put("next.yaml", secret(&format!("billing: {NEW}")).replace("name: keys", "name: next"));
    site.guard("app", &[("api-key", &two), ("authorization", &rules)]);
    eventually("Fairway knows the new key", WAIT_TIMEOUT, || async {
        send_request(&fairway, &with(NEW)).await.status == 200
    })
    .await;
    assert_eq!(send_request(&fairway, &with(OLD)).await.status, 200);
    site.manifests.put("keys.yaml", secret("stock: the-key-of-stock"));
    eventually("Fairway has dropped the old key", WAIT_TIMEOUT, || async {
        send_request(&fairway, &with(OLD)).await.status == 401
    })
    .await;
    assert_eq!(send_request(&fairway, &with(NEW)).await.status, 200);
    let config = fairway.admin("/config").await.unwrap().text();
    let shown = format!("{config}{}", fairway.lines().join("\n"));
    assert!(shown.contains("X-Client") || shown.contains("api"), "the configuration is shown");
    for key in [OLD, NEW, "the-key-of-stock"] {
        assert!(!shown.contains(key), "{key}");
    }
}

/// The limit of a client applies to all of its addresses, and does not affect others.
#[tokio::test]
async fn api_clients_have_separate_limits() {
    let site = Site::new(&[Signer::ed25519("one")]).await;
    let keys = "billing: the-key-of-billing, stock: the-key-of-stock";
    site.manifests.put(
        "keys.yaml",
        format!(
            "apiVersion: v1\nkind: Secret\nmetadata: {{name: keys, namespace: a}}\nstringData: {{{keys}}}\n"
        ),
    );
    let auth = json!({"secretRefs": [{"name": "keys"}]});
    let limits = json!({"limits": [{"requests": 1, "per": "1h", "burst": 1, "by": "ApiKeyClient"}]});
    site.guard("app", &[("api-key", &auth), ("rate-limits", &limits)]);
    site.guard("unknown", &[("rate-limits", &limits)]);
    let fairway = site.run().await;
    let with = |key: &str| Request::get("app.test", "/p").header("X-API-Key", key).close();
    let mut statuses = Vec::new();
    for _ in 0..3 {
        statuses.push(send_request(&fairway, &with("the-key-of-billing")).await.status);
    }
    assert_eq!(statuses, [200, 200, 429]);
    assert_eq!(send_request(&fairway, &with("the-key-of-stock")).await.status, 200);
    assert_eq!(send_request(&fairway, &Request::get("unknown.test", "/p").close()).await.status, 503);
}

#[tokio::test]
async fn an_unreadable_annotation_closes_only_the_paths_of_its_ingress() {
    let signer = Signer::ed25519("one");
    let good = token(&signer, &json!({}));
    let site = Site::new(&[signer]).await;
    let keys = json!({"url": KEYS_URL});
    for (name, annotation, value) in [
        ("missing", "jwt", jwt(&json!({"ref": {"kind": "ConfigMap", "name": "gone"}}))),
        ("both", "jwt", jwt(&json!({"url": KEYS_URL, "ref": {"kind": "ConfigMap", "name": "gone"}}))),
        ("neither", "jwt", jwt(&json!({}))),
        ("outside", "jwt", jwt(&json!({"url": "http://login.example.com/keys"}))),
        ("unknown", "jwt", json!({"issuer": ISSUER})),
        ("nobody", "jwt", json!({"issuers": []})),
        ("secret", "api-key", json!({"secretRefs": [{"name": "gone"}]})),
        ("rule", "authorization", json!({"rules": [{"action": "Maybe"}]})),
    ] {
        site.guard(name, &[(annotation, &value)]);
    }
    site.guard("good", &[("jwt", &jwt(&keys))]);
    let fairway = site.run().await;
    for name in ["missing", "both", "neither", "outside", "unknown", "nobody", "secret", "rule"] {
        assert_eq!(send_request(&fairway, &request(name, &good)).await.status, 503, "{name}");
    }
    assert_eq!(send_request(&fairway, &request("good", &good)).await.status, 200);
}
