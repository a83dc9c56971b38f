//! An OpenID provider whose behaviour a test controls.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};
use std::time::SystemTime;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use fairway_testkit::tokens::{Signer, encode, jwk_set};
use fairway_testkit::{Backend, BackendResponse, RecordedRequest};
use serde_json::{Value, json};

pub(super) const ISSUER: &str = "http://login.auth.svc.cluster.local:81/realms/shop";
pub(super) const CLIENT_SECRET: &str = "s3cret of the shop";

/// The Unix time in seconds.
pub(super) fn now() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs()
}

/// The behaviour of the provider, which a test can change.
pub(super) struct Behaviour {
    pub(super) signer: Signer,
    pub(super) metadata: Value,
    /// Changes the claims of ID tokens.
    pub(super) claims: fn(&mut Value),
    /// Changes ID tokens.
    pub(super) id_token: fn(String) -> String,
    /// The response of the token endpoint instead of the normal one.
    pub(super) tokens: Option<fn(&Value) -> BackendResponse>,
    pub(super) expires_in: u64,
    /// Whether it always returns the same refresh token.
    pub(super) keeps_refresh_token: bool,
    /// Issued codes with their authorization requests.
    pub(super) codes: HashMap<String, BTreeMap<String, String>>,
    pub(super) refreshes: u32,
    pub(super) problems: Vec<String>,
}

/// An OpenID provider. The test's browser calls its authorization endpoint directly.
pub(super) struct Provider {
    pub(super) backend: Backend,
    pub(super) behaviour: Arc<Mutex<Behaviour>>,
}

impl Provider {
    pub(super) async fn start() -> Self {
        let metadata = json!({
            "issuer": ISSUER,
            "authorization_endpoint": "https://login.example.com/auth",
            "token_endpoint": format!("{ISSUER}/token"),
            "jwks_uri": format!("{ISSUER}/keys"),
            "end_session_endpoint": "https://login.example.com/logout",
            "response_types_supported": ["code"],
            "code_challenge_methods_supported": ["S256"],
        });
        let behaviour = Arc::new(Mutex::new(Behaviour {
            signer: Signer::rs256("one"),
            metadata,
            claims: |_| {},
            id_token: |token| token,
            tokens: None,
            expires_in: 300,
            keeps_refresh_token: false,
            codes: HashMap::new(),
            refreshes: 0,
            problems: Vec::new(),
        }));
        let answering = Arc::clone(&behaviour);
        let backend = Backend::http(move |request| answering.lock().unwrap().respond(request)).await;
        Self { backend, behaviour }
    }

    pub(super) fn change(&self, change: impl FnOnce(&mut Behaviour)) {
        change(&mut self.behaviour.lock().unwrap());
    }

    /// The user logs in: returns the code for an authorization request.
    pub(super) fn code(&self, request: &BTreeMap<String, String>) -> String {
        let mut behaviour = self.behaviour.lock().unwrap();
        let code = format!("code-{}", behaviour.codes.len());
        behaviour.codes.insert(code.clone(), request.clone());
        code
    }
}

impl Behaviour {
    fn respond(&mut self, request: &RecordedRequest) -> BackendResponse {
        match request.target.strip_prefix("/realms/shop") {
            Some("/.well-known/openid-configuration") => json_answer(200, &self.metadata),
            Some("/keys") => BackendResponse::ok(jwk_set(std::slice::from_ref(&self.signer))),
            Some("/token") => self.exchange(request),
            _ => BackendResponse::status(404, ""),
        }
    }

    fn exchange(&mut self, request: &RecordedRequest) -> BackendResponse {
        let form: BTreeMap<String, String> = form(&request.body);
        let password = STANDARD.encode("shop:s3cret+of+the+shop");
        if request.header("Authorization") != Some(&*format!("Basic {password}")) {
            self.problems.push(format!("{:?}", request.headers));
            return json_answer(401, &json!({"error": "invalid_client"}));
        }
        let nonce = match &*form["grant_type"] {
            "authorization_code" => {
                // A code is valid once.
                let Some(asked) = self.codes.remove(&form["code"]) else {
                    return json_answer(400, &json!({"error": "invalid_grant"}));
                };
                self.codes.insert(format!("used {}", form["code"]), BTreeMap::new());
                let challenge = encode(fairway_token::digest(form["code_verifier"].as_bytes()));
                if asked["code_challenge"] != challenge || asked["redirect_uri"] != form["redirect_uri"] {
                    self.problems.push(format!("{asked:?} {form:?}"));
                    return json_answer(400, &json!({"error": "invalid_grant"}));
                }
                Some(asked["nonce"].clone())
            }
            "refresh_token" => {
                self.refreshes += 1;
                None
            }
            other => panic!("{other}"),
        };
        let now = now();
        let mut claims = json!({
            "iss": ISSUER, "aud": "shop", "sub": "alice", "exp": now + 3600, "iat": now, "groups": ["staff"],
            "sid": format!("session-{}", self.codes.len()),
        });
        if let Some(nonce) = nonce {
            claims["nonce"] = nonce.into();
        }
        (self.claims)(&mut claims);
        let header = json!({"alg": self.signer.algorithm(), "kid": self.signer.key_id()});
        let id_token = (self.id_token)(self.signer.token(&header, &claims));
        let tokens = json!({
            "access_token": "the-access-token", "token_type": "Bearer", "expires_in": self.expires_in,
            "id_token": id_token, "refresh_token": format!("refresh-{}", if self.keeps_refresh_token { 0 } else { self.refreshes }),
        });
        self.tokens.map_or_else(|| json_answer(200, &tokens), |answer| answer(&tokens))
    }
}

pub(super) fn json_answer(status: u16, body: &Value) -> BackendResponse {
    BackendResponse::with_headers(status, &[("Content-Type", "application/json")], body.to_string())
}

pub(super) fn form(text: &[u8]) -> BTreeMap<String, String> {
    form_urlencoded::parse(text).into_owned().collect()
}
