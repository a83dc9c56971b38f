//! Valid and invalid identity settings, and their results.

use std::time::Duration;

use fairway_model::{
    CredentialLocation, Decision, JwtKeys, NamedValueMatch, TextMatch, TrustedRoots, UrlScheme,
};
use fairway_token::digest;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use serde_json::{Value, json};

use super::*;
use crate::backend::{BackendPurpose, ResolveError};
use crate::inputs::Inputs;
use crate::object::{Kind, Object};
use crate::options::{ExternalNames, Options};
use crate::policies::SecurityPolicySpec;
use crate::resources::{Change, Resources};
use crate::service_url::UrlHost;

/// The public key of RFC 8037 appendix A.2.
const KEY: &str = r#"{"kty": "OKP", "crv": "Ed25519", "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}"#;

fn resources() -> Resources {
    let mut resources = Resources::default();
    let mut secret = |namespace: &str, name: &str, entries: Value| {
        let secret: Secret = serde_json::from_value(json!({
            "metadata": {"name": name, "namespace": namespace, "resourceVersion": "7"},
            "stringData": entries,
        }))
        .unwrap();
        resources.apply(Change::Set(Object::Secret(Arc::new(secret)), None));
    };
    secret("shop", "partners", json!({"billing": "hunter2-hunter2-1\n", "storage": "hunter2-hunter2-2\r\n"}));
    secret("shop", "next", json!({"billing": "hunter2-hunter2-3"}));
    secret("shop", "same", json!({"other": "hunter2-hunter2-1"}));
    secret("shop", "short", json!({"hunter2": "hunter2"}));
    secret("shop", "spaced", json!({"a": "hunter2-hunter2-1 "}));
    secret("shop", "control", json!({"a": "hunter2\u{7}hunter2-1"}));
    secret("shop", "blank", json!({"a": "\n"}));
    secret("shop", "none", json!({}));
    secret("shop", "login", json!({"client-secret": "hunter2\n"}));
    secret("bank", "partners", json!({"a": "hunter2-hunter2-1"}));
    secret("shop", "authority", json!({"ca.crt": "no certificate"}));
    let mut map = |name: &str, key_set: &str| {
        let map: ConfigMap = serde_json::from_value(json!({
            "metadata": {"name": name, "namespace": "shop"},
            "data": {"jwks.json": key_set},
        }))
        .unwrap();
        resources.apply(Change::Set(Object::ConfigMap(Arc::new(map)), None));
    };
    map("keys", &format!(r#"{{"keys": [{KEY}]}}"#));
    map("mixed", &format!(r#"{{"keys": [{KEY}, {{"kty": "what"}}, 5]}}"#));
    map("private", &format!(r#"{{"keys": [{KEY}, {{"kty": "oct", "k": "hunter2"}}]}}"#));
    map("useless", r#"{"keys": []}"#);
    map("broken", "hunter2");
    let service = serde_json::from_value(json!({
        "metadata": {"name": "outside", "namespace": "shop"},
        "spec": {"type": "ExternalName", "externalName": "login.test"},
    }))
    .unwrap();
    resources.apply(Change::Set(Object::Service(Arc::new(service)), None));
    resources
}

fn read(spec: &Value) -> IdentityResult<Identity> {
    let spec: SecurityPolicySpec = serde_json::from_value(spec.clone()).expect("a spec");
    let written = IdentitySpec {
        jwt: spec.jwt.as_ref(),
        oidc: spec.oidc.as_ref(),
        api_key: spec.api_key.as_ref(),
        authorization: spec.authorization.as_ref(),
        rate_limits: &spec.rate_limits,
        counted_as: "SecurityPolicy/shop/one",
    };
    let permits = |_: Kind, key: &ObjectKey| match &*key.namespace {
        "shop" => Ok(()),
        _ => Err(format!("{key} is elsewhere")),
    };
    written.read(Context { resources: &resources(), namespace: "shop", permits: &permits })
}

fn keys() -> Value {
    json!({"ref": {"kind": "ConfigMap", "name": "keys"}})
}

/// A policy for an issuer with these additional fields.
fn issuer(fields: &Value) -> Value {
    let mut issuer = json!({"issuer": "https://login.test", "keys": keys()});
    let fields = fields.as_object().unwrap().clone();
    issuer.as_object_mut().unwrap().extend(fields);
    json!({"jwt": {"issuers": [issuer]}})
}

fn keys_at(url: &str) -> Value {
    issuer(&json!({"keys": {"url": url}}))
}

fn jwt(fields: &Value) -> Value {
    let mut spec = issuer(&json!({}));
    spec["jwt"].as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    spec
}

fn api_key(secrets: &[&str], fields: &Value) -> Value {
    let secrets: Vec<_> = secrets.iter().map(|name| json!({"name": name})).collect();
    let mut spec = json!({"apiKey": {"secretRefs": secrets}});
    spec["apiKey"].as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    spec
}

fn rule(fields: &Value) -> Value {
    json!({"authorization": {"rules": [fields]}})
}

/// The expected error field of each invalid value.
fn check(mistakes: &[(Value, &str)]) {
    for (spec, field) in mistakes {
        let mistake = read(spec).expect_err(&spec.to_string());
        assert_eq!(mistake.field, *field, "{spec}: {}", mistake.problem);
        assert!(!mistake.problem.contains("hunter2"), "{spec}: {}", mistake.problem);
    }
}

#[test]
fn errors_about_tokens_name_their_field() {
    let twice = json!({"issuer": "a", "keys": keys()});
    check(&[
        (json!({"jwt": {}}), "jwt.issuers"),
        (json!({"jwt": {"issuers": vec![&twice; 9]}}), "jwt.issuers"),
        (json!({"jwt": {"issuers": [twice, twice]}}), "jwt.issuers[1].issuer"),
        (jwt(&json!({"realm": ""})), "jwt.realm"),
        (jwt(&json!({"realm": "a\"b"})), "jwt.realm"),
        (jwt(&json!({"clockSkew": "soon"})), "jwt.clockSkew"),
        (jwt(&json!({"clockSkew": "10m1s"})), "jwt.clockSkew"),
        (issuer(&json!({"issuer": ""})), "jwt.issuers[0].issuer"),
        (issuer(&json!({"audiences": [""]})), "jwt.issuers[0].audiences"),
        (
            issuer(&json!({"requiredClaims": [{"name": "a", "values": []}]})),
            "jwt.issuers[0].requiredClaims[0].values",
        ),
        (
            issuer(&json!({"requiredClaims": [{"name": "", "values": ["b"]}]})),
            "jwt.issuers[0].requiredClaims[0].name",
        ),
        (issuer(&json!({"requiredScopes": ["read write"]})), "jwt.issuers[0].requiredScopes"),
        (issuer(&json!({"keys": {}})), "jwt.issuers[0].keys"),
        (
            issuer(&json!({"keys": {"url": "https://a.test/", "ref": {"kind": "Secret", "name": "a"}}})),
            "jwt.issuers[0].keys",
        ),
        (
            issuer(
                &json!({"keys": {"ref": {"kind": "ConfigMap", "name": "keys"}, "caCertificateRefs": [{"kind": "Secret", "name": "a"}]}}),
            ),
            "jwt.issuers[0].keys.caCertificateRefs",
        ),
    ]);
}

#[test]
fn errors_about_keys_name_their_field() {
    let named = |kind: &str, name: &str| issuer(&json!({"keys": {"ref": {"kind": kind, "name": name}}}));
    let trusted_by = |name: &str, url: &str| {
        issuer(&json!({"keys": {"url": url, "caCertificateRefs": [{"kind": "Secret", "name": name}]}}))
    };
    let (of_ref, of_url) = ("jwt.issuers[0].keys.ref", "jwt.issuers[0].keys.url");
    let foreign = json!({"keys": {"ref": {"kind": "Secret", "name": "partners", "namespace": "bank"}}});
    check(&[
        (named("Pod", "keys"), of_ref),
        (named("ConfigMap", "gone"), of_ref),
        (named("Secret", "partners"), of_ref),
        (named("ConfigMap", "useless"), of_ref),
        (named("ConfigMap", "broken"), of_ref),
        (named("ConfigMap", "private"), of_ref),
        (issuer(&foreign), of_ref),
        (trusted_by("authority", "https://a.test/"), "jwt.issuers[0].keys.caCertificateRefs[0]"),
        (trusted_by("gone", "https://a.test/"), "jwt.issuers[0].keys.caCertificateRefs[0]"),
        (trusted_by("authority", "http://keys.shop.svc/"), "jwt.issuers[0].keys.caCertificateRefs"),
    ]);
    for url in [
        "login.test/keys",
        "ftp://login.test/keys",
        "http://login.test/keys",
        "http://127.0.0.1/keys",
        "https://10.0.0.1/keys",
        "https://[::1]/keys",
        "https://u:hunter2@login.test/keys",
        "https://login.test/$request_uri",
        "https://$host/keys",
        "$scheme://$host/keys",
        "https://login.test/keys#a",
        "https://login.test:0/",
        "https://-/",
        "https://a b/",
    ] {
        check(&[(keys_at(url), of_url)]);
    }
    assert!(read(&named("ConfigMap", "gone")).unwrap_err().is_missing);
    assert!(!read(&named("ConfigMap", "broken")).unwrap_err().is_missing);
}

#[test]
fn errors_about_locations_and_headers_name_their_field() {
    let from = |source: Value| jwt(&json!({"from": [source]}));
    let header = |header: &str| issuer(&json!({"claimsToHeaders": [{"claim": "sub", "header": header}]}));
    let name = "jwt.from[0].name";
    check(&[
        (from(json!({"type": "Body", "name": "a"})), "jwt.from[0].type"),
        (from(json!({"type": "Header", "name": ""})), name),
        (from(json!({"type": "Header", "name": "a b"})), name),
        (from(json!({"type": "Header", "name": "Connection"})), name),
        (from(json!({"type": "Header", "name": "Host"})), name),
        (from(json!({"type": "Header", "name": "Cookie"})), name),
        (from(json!({"type": "Cookie", "name": "a;b"})), name),
        (from(json!({"type": "QueryParam", "name": "a=b"})), name),
        (from(json!({"type": "Header", "name": "a", "prefix": " x"})), "jwt.from[0].prefix"),
        (from(json!({"type": "Header", "name": "a", "prefix": "x\r\n"})), "jwt.from[0].prefix"),
        (from(json!({"type": "Cookie", "name": "a", "prefix": "x"})), "jwt.from[0].prefix"),
        (
            jwt(&json!({"from": [{"type": "Cookie", "name": "a"}, {"type": "Cookie", "name": "a"}]})),
            "jwt.from[1]",
        ),
        (
            issuer(
                &json!({"claimsToHeaders": [{"claim": "a", "header": "X-A"}, {"claim": "b", "header": "x_a"}]}),
            ),
            "jwt.issuers[0].claimsToHeaders[1].header",
        ),
        (issuer(&json!({"claimsToHeaders": [{"header": "X-A"}]})), "jwt.issuers[0].claimsToHeaders[0].claim"),
        (api_key(&["partners"], &json!({"clientHeader": "x_api_key"})), "apiKey.clientHeader"),
        (api_key(&["partners"], &json!({"clientHeader": "Host"})), "apiKey.clientHeader"),
    ]);
    for wrong in [
        "",
        "a b",
        "X-A:",
        "Host",
        "Connection",
        "Content-Length",
        "Content-Type",
        "Transfer-Encoding",
        "TE",
        "Expect",
        "Authorization",
        "Cookie",
        "X-Forwarded-For",
        "X_Forwarded_For",
        "X-Real-IP",
        "Forwarded",
        "Transfer_Encoding",
    ] {
        check(&[(header(wrong), "jwt.issuers[0].claimsToHeaders[0].header")]);
    }
    let mut both = issuer(&json!({"claimsToHeaders": [{"claim": "sub", "header": "X-Client"}]}));
    both["apiKey"] = api_key(&["partners"], &json!({"clientHeader": "x-client"}))["apiKey"].clone();
    check(&[(both, "apiKey.clientHeader")]);
}

#[test]
fn a_claim_and_a_key_do_not_share_a_header() {
    let collide = |header: &str, additions: &Value| {
        let mut spec = issuer(&json!({"claimsToHeaders": [{"claim": "sub", "header": header}]}));
        spec["apiKey"] = api_key(&["partners"], additions)["apiKey"].clone();
        spec
    };
    check(&[
        (collide("x_api_key", &json!({})), "apiKey.from"),
        (collide("X-User", &json!({"clientHeader": "x_user"})), "apiKey.clientHeader"),
    ]);
    assert!(read(&collide("X-User", &json!({"clientHeader": "X-Client"}))).is_ok());
}

#[test]
fn errors_about_api_keys_name_their_field() {
    let wrong = |secret: &str| api_key(&[secret], &json!({}));
    let field = "apiKey.secretRefs[0]";
    let foreign = json!({"apiKey": {"secretRefs": [{"name": "partners", "namespace": "bank"}]}});
    check(&[
        (json!({"apiKey": {}}), "apiKey.secretRefs"),
        (wrong("gone"), field),
        (wrong("short"), field),
        (wrong("spaced"), field),
        (wrong("control"), field),
        (wrong("blank"), field),
        (wrong("none"), field),
        (foreign, field),
        (api_key(&["partners", "same"], &json!({})), "apiKey.secretRefs[1]"),
    ]);
}

#[test]
fn errors_about_authorization_name_their_field() {
    let allow = |name: &str, value: Value| rule(&json!({"action": "Allow", name: value}));
    let at = |name: &str| format!("authorization.rules[0].{name}");
    check(&[
        (json!({"authorization": {}}), "authorization.rules"),
        (rule(&json!({})), &at("action")),
        (rule(&json!({"action": "allow"})), &at("action")),
        (allow("sources", json!(["ten"])), &at("sources")),
        (allow("countries", json!(["DE", "fr"])), &at("countries")),
        (allow("countries", json!(["Germany"])), &at("countries")),
        (allow("asns", json!([64500, 0])), &at("asns")),
        (allow("methods", json!(["get"])), &at("methods")),
        (allow("claims", json!([{"name": "a", "values": ["b"]}])), &at("claims")),
        (allow("scopes", json!(["a"])), &at("scopes")),
        (allow("apiKeyClients", json!(["a"])), &at("apiKeyClients")),
        (allow("headers", json!([{"name": "Host", "value": "a"}])), &at("headers[0].name")),
        (
            allow("headers", json!([{"name": "A", "value": "(", "type": "RegularExpression"}])),
            &at("headers[0].value"),
        ),
        (allow("headers", json!([{"name": "A", "value": "a", "type": "Prefix"}])), &at("headers[0].type")),
    ]);
    for name in ["sources", "countries", "asns", "methods", "claims", "scopes", "apiKeyClients", "headers"] {
        check(&[(allow(name, json!([])), &at(name))]);
    }
}

#[test]
fn a_null_condition_differs_from_an_absent_one() {
    for name in ["sources", "countries", "asns", "methods", "claims", "scopes", "apiKeyClients", "headers"] {
        let text = format!(r#"{{"rules": [{{"action": "Allow", "{name}": null}}]}}"#);
        assert!(serde_json::from_str::<types::Authorization>(&text).is_err(), "{name}");
        let problem = crate::annotations::parse_policy_field::<types::Authorization>(&text).unwrap_err();
        assert!(problem.starts_with(&format!("rules[0].{name} is not what is expected here")), "{problem}");
    }
}

#[test]
fn tokens_are_found_and_verified_as_written() {
    let read = read(&issuer(&json!({
        "audiences": ["shop"],
        "requiredClaims": [{"name": "realm_access.roles", "values": ["staff", "admin"]}],
        "requiredScopes": ["read"],
        "claimsToHeaders": [{"claim": "sub", "header": "X-User"}],
    })))
    .unwrap();
    let auth = read.jwt.unwrap();
    let bearer = CredentialLocation::Header { name: "Authorization".into(), prefix: "Bearer ".into() };
    assert_eq!((&*auth.realm, auth.skew), ("fairway", Duration::from_secs(30)));
    assert_eq!(auth.locations, [bearer]);
    let issuer = &auth.issuers[0];
    assert!(matches!(&issuer.keys, JwtKeys::Inline(text) if text.contains("Ed25519")));
    assert_eq!((&*issuer.claims[0].values[1], &*issuer.scopes[0]), ("admin", "read"));
    assert_eq!((&*issuer.headers[0].claim, &*issuer.headers[0].header), ("sub", "X-User"));
    assert_eq!((read.backends, read.doubts), (Vec::new(), Vec::new()));
}

#[test]
fn key_sets_need_verified_tls_except_from_services() {
    for (url, host, target, service) in [
        ("https://Login.test/keys?a=b", "login.test", "/keys?a=b", "login.test"),
        ("https://login.test:8443", "login.test:8443", "/", "login.test"),
        ("https://keys.shop.svc/", "keys.shop.svc", "/", "shop/keys"),
        ("http://keys.shop.svc.cluster.local:81/a", "keys.shop.svc.cluster.local:81", "/a", "shop/keys"),
    ] {
        let read = read(&keys_at(url)).unwrap();
        let backend = &read.backends[0].backend;
        assert_eq!(read.backends[0].field, "jwt.issuers[0].keys.url");
        let JwtKeys::Published(keys) = &read.jwt.as_ref().unwrap().issuers[0].keys else { panic!("{url}") };
        assert_eq!((&*keys.host, &*keys.target, &keys.backend), (host, target, &backend.key), "{url}");
        assert_eq!(backend.service.to_string(), service);
        let tls = backend.transport.tls(&backend.service);
        assert_eq!(tls.is_some(), url.starts_with("https"), "{url}");
        assert!(tls.is_none_or(|tls| tls.verification != fairway_model::UpstreamVerification::Off), "{url}");
    }
}

#[test]
fn cleartext_keys_come_only_from_endpoints_of_the_cluster() {
    let (resources, mut options) = (resources(), Options::default());
    options.trust.external.names = ExternalNames::Resolved;
    let inputs = Inputs { resources: &resources, options: &options };
    for (url, expected) in [
        ("http://outside.shop.svc/", Some(ResolveError::External)),
        ("http://gone.shop.svc/", Some(ResolveError::NoService)),
        ("https://outside.shop.svc/", None),
        ("https://gone.shop.svc/", None),
    ] {
        let read = read(&keys_at(url)).unwrap();
        assert_eq!(read.backends[0].backend.resolve(inputs).err(), expected, "{url}");
    }
}

#[test]
fn hosts_with_different_trust_are_different_backends() {
    let host = UrlHost::parse("login.test", UrlScheme::Https).unwrap();
    let key = |roots| host.backend_verified(roots, BackendPurpose::Keys).key;
    let keys = [
        key(TrustedRoots::System),
        key(TrustedRoots::Pem("a".into())),
        key(TrustedRoots::Pem("b".into())),
        host.backend(&Resources::default(), BackendPurpose::Keys).key,
        host.backend(&Resources::default(), BackendPurpose::Authentication).key,
    ];
    assert_eq!(keys.iter().collect::<BTreeSet<_>>().len(), keys.len(), "{keys:?}");
}

#[test]
fn unused_keys_are_a_warning() {
    let read = read(&issuer(&json!({"keys": {"ref": {"kind": "ConfigMap", "name": "mixed"}}}))).unwrap();
    let doubt = &read.doubts[0];
    assert_eq!((doubt.code, &*doubt.field), ("unusable-key", "jwt.issuers[0].keys.ref"));
    assert!(doubt.problem.contains("key 1 (and 1 more): its \"kty\""), "{}", doubt.problem);
}

#[test]
fn api_keys_are_the_entries_of_secrets_without_line_ends() {
    let read = read(&api_key(&["partners", "next"], &json!({"clientHeader": "X-Client"}))).unwrap();
    let auth = read.api_key.unwrap();
    let client = |key: &str| auth.keys.client(&digest(key.as_bytes())).map(|name| &**name);
    assert_eq!(client("hunter2-hunter2-1"), Some("billing"));
    assert_eq!(client("hunter2-hunter2-2"), Some("storage"));
    assert_eq!(
        client("hunter2-hunter2-3"),
        Some("billing"),
        "a client may have two keys while one is replaced"
    );
    assert_eq!(client("hunter2-hunter2-1\n"), None);
    assert_eq!(&*auth.policy, "shop/next@7,shop/partners@7");
    let default = CredentialLocation::Header { name: "X-API-Key".into(), prefix: "".into() };
    assert_eq!((&auth.locations[..], auth.client_header.as_deref()), (&[default][..], Some("X-Client")));
}

#[test]
fn rules_may_have_conditions_or_none() {
    let mut spec = jwt(&json!({}));
    spec["apiKey"] = api_key(&["partners"], &json!({}))["apiKey"].clone();
    spec["authorization"] = json!({"rules": [
        {
            "action": "Deny",
            "sources": ["10.0.0.0/8", "::1"],
            "methods": ["DELETE"],
            "claims": [{"name": "a", "values": ["b"]}],
            "scopes": ["write"],
            "apiKeyClients": ["billing", "nobody"],
            "headers": [{"name": "X-Tenant", "value": "acme"}, {"name": "b", "value": "c.*", "type": "RegularExpression"}],
        },
        {"action": "Allow"},
    ]});
    let read = read(&spec).unwrap();
    let rules = &read.authorization.unwrap().rules;
    assert_eq!((rules[0].decision, rules[0].sources.len(), rules[0].clients.len()), (Decision::Deny, 2, 2));
    let tenant = NamedValueMatch { name: "x-tenant".into(), value: TextMatch::Exact("acme".into()) };
    let other = NamedValueMatch { name: "b".into(), value: TextMatch::Regex("c.*".into()) };
    assert_eq!(rules[0].headers, [tenant, other]);
    assert!(rules[1].sources.is_empty() && rules[1].headers.is_empty());
    assert_eq!(read.doubts[0].code, "unknown-api-key-client");
}

#[test]
fn references_are_known_before_validation() {
    let spec = json!({
        "jwt": {"issuers": [
            {"keys": {"ref": {"kind": "ConfigMap", "name": "keys"}}},
            {"keys": {"url": "https://a.login.svc/", "caCertificateRefs": [{"kind": "Secret", "name": "ca", "namespace": "b"}]}},
            {"keys": {"url": "no URL", "ref": {"kind": "Pod", "name": "a"}}},
        ]},
        "apiKey": {"secretRefs": [{"name": "partners"}]},
    });
    let spec: SecurityPolicySpec = serde_json::from_value(spec).unwrap();
    let written =
        IdentitySpec { jwt: spec.jwt.as_ref(), api_key: spec.api_key.as_ref(), ..IdentitySpec::default() };
    let named: Vec<_> = written
        .referenced_objects("shop")
        .iter()
        .map(|it| format!("{} {}", it.kind.name(), it.key))
        .collect();
    assert_eq!(named, ["Secret b/ca", "Secret shop/partners", "ConfigMap shop/keys"]);
    assert_eq!(written.services().into_iter().collect::<Vec<_>>(), [ObjectKey::new("login", "a")]);
}

/// A policy for a login with these additional fields.
fn login(fields: &Value) -> Value {
    let mut oidc = json!({"issuer": "https://login.test/shop", "clientId": "shop"});
    oidc.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    json!({"oidc": oidc})
}

#[test]
fn a_login_needs_little_and_has_safe_defaults() {
    let identity = read(&login(&json!({}))).unwrap();
    let auth = identity.oidc.unwrap();
    assert_eq!(&*auth.metadata.target, "/shop/.well-known/openid-configuration");
    assert_eq!((&*auth.metadata.host, &*auth.hosts[0].origin), ("login.test", "https://login.test"));
    assert_eq!(auth.client_secret.text(), None);
    assert_eq!(auth.scopes, ["openid".into()]);
    assert_eq!((&*auth.paths.callback, &*auth.paths.logout), ("/oauth2/callback", "/oauth2/logout"));
    assert_eq!((auth.session_lifetime.as_secs(), auth.forwards_access_token), (43_200, false));
    assert_eq!(identity.backends.len(), 1);
    let spec = login(&json!({
        "clientSecretRef": {"name": "login"}, "scopes": ["openid", "email"], "additionalHosts": ["keys.test:8443"],
        "metadataUrl": "http://idp.login.svc:8080/m", "sessionLifetime": "30m", "forwardAccessToken": true,
        "parameters": [{"name": "audience", "value": "a b"}], "callbackPath": "/app/back",
    }));
    let identity = read(&spec).unwrap();
    let auth = identity.oidc.unwrap();
    assert_eq!(auth.client_secret.text().map(|secret| &**secret), Some("hunter2"));
    assert_eq!(&*auth.client_secret_version, "shop/login@7");
    assert_eq!(auth.scopes, ["openid".into(), "email".into()]);
    let origins: Vec<_> = auth.hosts.iter().map(|host| &*host.origin).collect();
    assert_eq!(origins, ["http://idp.login.svc:8080", "https://keys.test:8443"]);
    assert_eq!(auth.sessions, "shop\nshop\nhttps://login.test/shop".into());
}

#[test]
fn an_invalid_login_names_its_field_and_no_secret() {
    for (fields, field) in [
        (json!({"issuer": ""}), "oidc.issuer"),
        (json!({"issuer": "login.test"}), "oidc.issuer"),
        (json!({"issuer": "http://login.test"}), "oidc.issuer"),
        (json!({"issuer": "https://login.test/?a"}), "oidc.issuer"),
        (json!({"issuer": "https://127.0.0.1/"}), "oidc.issuer"),
        (json!({"clientId": ""}), "oidc.clientId"),
        (json!({"clientSecretRef": {"name": "gone"}}), "oidc.clientSecretRef"),
        (json!({"clientSecretRef": {"name": "partners"}}), "oidc.clientSecretRef"),
        (json!({"clientSecretRef": {"name": "login", "namespace": "bank"}}), "oidc.clientSecretRef"),
        (json!({"metadataUrl": "https://a@login.test/"}), "oidc.metadataUrl"),
        (json!({"additionalHosts": ["https://keys.test"]}), "oidc.additionalHosts[0]"),
        (json!({"additionalHosts": ["keys.test/a"]}), "oidc.additionalHosts[0]"),
        (json!({"additionalHosts": ["127.0.0.1"]}), "oidc.additionalHosts[0]"),
        (
            json!({"caCertificateRefs": [{"kind": "Secret", "name": "authority"}]}),
            "oidc.caCertificateRefs[0]",
        ),
        (json!({"scopes": ["a b"]}), "oidc.scopes"),
        (json!({"parameters": [{"name": "redirect_uri", "value": "a"}]}), "oidc.parameters[0].name"),
        (json!({"parameters": [{"name": "a", "value": ""}]}), "oidc.parameters[0].value"),
        (json!({"callbackPath": "back"}), "oidc.callbackPath"),
        (json!({"callbackPath": "/a?b"}), "oidc.callbackPath"),
        (json!({"callbackPath": "/a/../b"}), "oidc.callbackPath"),
        (json!({"logoutPath": "/oauth2/callback"}), "oidc.logoutPath"),
        (json!({"afterLogoutPath": "//evil.test"}), "oidc.afterLogoutPath"),
        (json!({"afterLogoutPath": "/oauth2/logout"}), "oidc.afterLogoutPath"),
        (json!({"backChannelLogoutPath": "out"}), "oidc.backChannelLogoutPath"),
        (json!({"backChannelLogoutPath": "/oauth2/logout"}), "oidc.backChannelLogoutPath"),
        (json!({"backChannelLogoutPath": "/"}), "oidc.backChannelLogoutPath"),
        (json!({"sessionLifetime": "1s"}), "oidc.sessionLifetime"),
        (json!({"sessionLifetime": "200h"}), "oidc.sessionLifetime"),
        (json!({"clockSkew": "1h"}), "oidc.clockSkew"),
        (json!({"claimsToHeaders": [{"claim": "sub", "header": "Host"}]}), "oidc.claimsToHeaders[0].header"),
    ] {
        let mistake = read(&login(&fields)).expect_err(field);
        assert_eq!(mistake.field, field, "{}", mistake.problem);
        assert!(!mistake.problem.contains("hunter2"), "{}", mistake.problem);
    }
    let mut both = issuer(&json!({}));
    both["oidc"] = login(&json!({}))["oidc"].clone();
    assert_eq!(read(&both).expect_err("they exclude each other").field, "oidc");
    let mut scopes = login(&json!({}));
    scopes["authorization"] = json!({"rules": [{"action": "Allow", "scopes": ["read"]}]});
    assert_eq!(read(&scopes).expect_err("an ID token has none").field, "authorization.rules[0].scopes");
    scopes["authorization"] =
        json!({"rules": [{"action": "Allow", "claims": [{"name": "a", "values": ["b"]}]}]});
    assert!(read(&scopes).is_ok());
}

#[test]
fn limits_are_counted_by_the_known_identity_of_the_client() {
    let limits = json!([
        {"requests": 10, "per": "1m", "burst": 3, "status": 503, "exempt": ["10.0.0.0/8", "10.0.0.0/8"]},
        {"requests": 5, "by": "Claim", "claim": "sub"},
    ]);
    let mut spec = login(&json!({}));
    spec["rateLimits"] = limits;
    let identity = read(&spec).unwrap();
    let [by_address] = &identity.limits[..] else { panic!("{identity:?}") };
    assert_eq!((by_address.requests, by_address.per.as_secs(), by_address.burst), (10, 60, 3));
    assert_eq!((by_address.status, by_address.exempt.len()), (503, 1));
    let [by_claim] = &identity.late_limits[..] else { panic!("{identity:?}") };
    assert_eq!((&by_claim.key, by_claim.status), (&LimitKey::Claim("sub".into()), 429));
    assert_eq!(&*by_claim.policy, "SecurityPolicy/shop/one/rateLimits/1");
    for (limit, field) in [
        (json!({}), "requests"),
        (json!({"requests": -1}), "requests"),
        (json!({"requests": 5_000_000_000_u64}), "requests"),
        (json!({"requests": 1, "per": "0s"}), "per"),
        (json!({"requests": 1, "per": "1 minute"}), "per"),
        (json!({"requests": 1, "burst": -1}), "burst"),
        (json!({"requests": 1, "status": 200}), "status"),
        (json!({"requests": 1, "status": 600}), "status"),
        (json!({"requests": 1, "exempt": ["ten"]}), "exempt"),
        (json!({"requests": 1, "by": "sub"}), "by"),
        (json!({"requests": 1, "by": "ApiKeyClient"}), "by"),
        (json!({"requests": 1, "by": "Claim"}), "claim"),
        (json!({"requests": 1, "claim": "sub"}), "claim"),
    ] {
        spec["rateLimits"] = json!([limit]);
        assert_eq!(read(&spec).expect_err(field).field, format!("rateLimits[0].{field}"));
    }
    let many = json!({"rateLimits": vec![json!({"requests": 1}); 5]});
    assert_eq!(read(&many).expect_err("too many").field, "rateLimits");
}
