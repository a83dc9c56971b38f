//! Reads SecurityPolicies: access control and limits, as guards in the order in which they apply. A policy that
//! cannot be read completely is not applied in part, because guessing could admit someone.

use std::sync::Arc;

use fairway_model::{
    AccessList, BackendKey, BasicAuth, ClientCertificateMode, ClientVerification, ConcurrencyLimit, Guard,
    HeaderEdit, RequestEdit,
};
use fairway_objects::certificate::secret_value;
use fairway_objects::identity::{self, Identity, KeySetBackend};
use fairway_objects::object::{Kind, ObjectKey, ObjectRef};
use fairway_objects::passwords::{self, ReadUsers, SecretForm, UnusableHash};
use fairway_objects::policies as types;
use fairway_objects::policies::SecurityPolicySpec;
use fairway_objects::resources::Resources;
use fairway_objects::roots::{are_certificates, are_revocation_lists, only_unsupported_keys};
use ipnet::IpNet;

use crate::policies::external::{self, AuthCall};
use crate::policies::reading::{PolicyError, PolicyReading, PolicyWarning};
use crate::policies::value::{enum_value, number, ranges};

/// The content of a SecurityPolicy.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Security {
    /// Client certificate verification for listeners.
    pub clients: Option<ClientVerification>,
    concurrency: Option<Guard>,
    access: Option<AccessList>,
    basic: Option<BasicAuth>,
    external: Option<AuthCall>,
    identity: Identity,
}

/// Whose more specific policies may replace a policy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum ReplaceableBy {
    /// Policies of its own namespace.
    #[default]
    SameNamespace,
    /// All policies.
    All,
    /// None: it always applies.
    None,
}

/// Inputs for reading policies.
#[derive(Clone, Copy)]
pub(crate) struct PolicyContext<'a> {
    /// The objects.
    pub resources: &'a Resources,
    /// Whether the policy may refer to an object.
    pub permits: &'a dyn Fn(Kind, &ObjectKey) -> bool,
}

/// Secrets and ConfigMaps that a policy in `namespace` references.
#[must_use]
pub(crate) fn named_references(spec: &SecurityPolicySpec, namespace: &str) -> Vec<ObjectRef> {
    let users = spec.basic_auth.iter().map(|basic| {
        let key = key(basic.secret_ref.namespace.as_deref(), namespace, &basic.secret_ref.name);
        ObjectRef::new(Kind::Secret, key)
    });
    let authorities = spec.client_certificates.iter().flat_map(|it| &it.ca_certificate_refs);
    let authorities = authorities.filter_map(|it| authority(it, namespace));
    users.chain(authorities).chain(identity_fields(spec, "").referenced_objects(namespace)).collect()
}

/// Services named by the URLs of a policy.
pub(crate) fn url_services(spec: &SecurityPolicySpec) -> Vec<ObjectKey> {
    identity_fields(spec, "").services().into_iter().collect()
}

fn identity_fields<'s>(spec: &'s SecurityPolicySpec, counted_as: &'s str) -> identity::IdentitySpec<'s> {
    identity::IdentitySpec {
        jwt: spec.jwt.as_ref(),
        oidc: spec.oidc.as_ref(),
        api_key: spec.api_key.as_ref(),
        authorization: spec.authorization.as_ref(),
        rate_limits: &spec.rate_limits,
        counted_as,
    }
}

fn key(namespace: Option<&str>, own_namespace: &str, name: &str) -> ObjectKey {
    ObjectKey::new(namespace.filter(|it| !it.is_empty()).unwrap_or(own_namespace), name)
}

fn authority(reference: &types::SecretOrConfigMapReference, namespace: &str) -> Option<ObjectRef> {
    let kind = match &*reference.kind {
        "Secret" => Kind::Secret,
        "ConfigMap" => Kind::ConfigMap,
        _ => return None,
    };
    Some(ObjectRef::new(kind, key(reference.namespace.as_deref(), namespace, &reference.name)))
}

/// Reads whose more specific policies may replace a policy.
///
/// # Errors
/// The value is unknown, or the policy is invalid: the unreadable part may be this field.
pub(crate) fn read_replaceable(spec: &SecurityPolicySpec) -> Result<ReplaceableBy, PolicyError> {
    if let Some(refused) = &spec.refused {
        return Err(PolicyError::new(&refused.field, &refused.problem));
    }
    let known = [
        ("SameNamespace", ReplaceableBy::SameNamespace),
        ("All", ReplaceableBy::All),
        ("None", ReplaceableBy::None),
    ];
    Ok(enum_value("spec.replaceableBy", spec.replaceable_by.as_deref(), &known)?.unwrap_or_default())
}

/// Reads the policy `policy`.
///
/// # Errors
/// The first unusable value.
pub(crate) fn read(
    policy: &ObjectKey,
    spec: &SecurityPolicySpec,
    context: PolicyContext<'_>,
) -> Result<PolicyReading<Security>, PolicyError> {
    let mut warnings = Vec::new();
    read_replaceable(spec)?;
    let basic = spec.basic_auth.as_ref();
    let clients = spec.client_certificates.as_ref();
    let settings = Security {
        clients: clients.map(|it| client_verification(it, policy, context)).transpose()?,
        concurrency: spec.concurrency_limit.as_ref().map(|it| concurrency(policy, it)).transpose()?,
        access: spec.source_ranges.as_ref().map(access_list).transpose()?,
        basic: basic.map(|it| basic_auth(it, policy, context, &mut warnings)).transpose()?,
        external: spec.external_auth.as_ref().map(|it| external::read(it, &policy.namespace)).transpose()?,
        identity: identity(spec, policy, context, &mut warnings)?,
    };
    Ok(PolicyReading { value: settings, warnings })
}

impl Security {
    /// The guards in order; `backend` is the authentication service.
    #[must_use]
    pub(crate) fn guards(&self, backend: Option<BackendKey>) -> Vec<Guard> {
        let mut guards = Vec::new();
        if self.clients.as_ref().is_some_and(|clients| clients.demand == ClientCertificateMode::Required) {
            guards.push(Guard::OverTls);
        }
        guards.extend(self.identity.limits.iter().cloned().map(Guard::RateLimit));
        guards.extend(self.concurrency.clone());
        guards.extend(self.access.clone().map(Guard::Access));
        guards.extend(self.basic.clone().map(Guard::BasicAuth));
        guards.extend(self.identity.jwt.clone().map(Guard::Jwt));
        guards.extend(self.identity.oidc.clone().map(Guard::Oidc));
        guards.extend(self.identity.api_key.clone().map(Guard::ApiKey));
        guards.extend(self.external.clone().map(|question| question.guard(backend)));
        guards.extend(self.identity.authorization.clone().map(Guard::Authorize));
        guards.extend(self.identity.late_limits.iter().cloned().map(Guard::RateLimit));
        guards
    }

    /// The backends that publish token keys.
    pub(crate) fn keys_backends(&self) -> &[KeySetBackend] {
        &self.identity.backends
    }

    /// Whether it checks passwords, which are not sent to endpoints.
    #[must_use]
    pub(crate) fn reads_passwords(&self) -> bool {
        self.basic.is_some()
    }
}

/// Removes passwords from requests, after all guards.
#[must_use]
pub(crate) fn remove_authorization() -> RequestEdit {
    RequestEdit::Headers(HeaderEdit { remove: vec!["authorization".into()], ..HeaderEdit::default() })
}

/// The policy identifies the counter: all requests to which it applies share it.
fn concurrency(policy: &ObjectKey, limit: &types::ConcurrencyLimit) -> Result<Guard, PolicyError> {
    Ok(Guard::ConcurrencyLimit(ConcurrencyLimit {
        policy: format!("SecurityPolicy/{policy}/concurrencyLimit").into(),
        max: required_number("spec.concurrencyLimit.requests", limit.requests)?,
        status: status("spec.concurrencyLimit.status", limit.status, 503)?,
        exempt: ranges("spec.concurrencyLimit.exempt", &limit.exempt)?,
    }))
}

/// Tokens, logins, API keys, authorization and rate limits.
fn identity(
    spec: &SecurityPolicySpec,
    policy: &ObjectKey,
    context: PolicyContext<'_>,
    warnings: &mut Vec<PolicyWarning>,
) -> Result<Identity, PolicyError> {
    let permits = |kind: Kind, key: &ObjectKey| match (context.permits)(kind, key) {
        true => Ok(()),
        false => Err(format!("no ReferenceGrant lets it refer to {} {key}", kind.name())),
    };
    let field_path = |field: &str| format!("spec.{field}");
    let (resources, namespace) = (context.resources, &policy.namespace);
    let context = identity::Context { resources, namespace, permits: &permits };
    let read = identity_fields(spec, &format!("SecurityPolicy/{policy}")).read(context);
    let mut identity =
        read.map_err(|mistake| PolicyError::new(field_path(&mistake.field), mistake.problem))?;
    warnings.extend(identity.doubts.drain(..).map(|doubt| PolicyWarning {
        code: doubt.code,
        field: field_path(&doubt.field),
        problem: doubt.problem,
        consequence: doubt.consequence,
    }));
    identity.backends.iter_mut().for_each(|it| it.field = field_path(&it.field));
    Ok(identity)
}

fn required_number(field: &str, value: i64) -> Result<u32, PolicyError> {
    number(field, Some(value), 1)?.ok_or_else(|| PolicyError::new(field, "it is missing"))
}

fn status(field: &str, value: Option<i32>, default: u16) -> Result<u16, PolicyError> {
    match number::<u16>(field, value.map(i64::from), 400)? {
        Some(600..) => Err(PolicyError::new(field, "it is none of 400 to 599")),
        status => Ok(status.unwrap_or(default)),
    }
}

fn access_list(spec: &types::SourceRanges) -> Result<AccessList, PolicyError> {
    let deny: Vec<IpNet> = ranges("spec.sourceRanges.deny", &spec.deny)?;
    let allow = ranges("spec.sourceRanges.allow", &spec.allow)?;
    match deny.is_empty() && allow.is_empty() {
        true => Err(PolicyError::new("spec.sourceRanges", "it has no range, which would let everybody pass")),
        false => Ok(AccessList { deny, allow }),
    }
}

fn basic_auth(
    spec: &types::BasicAuth,
    policy: &ObjectKey,
    context: PolicyContext<'_>,
    warnings: &mut Vec<PolicyWarning>,
) -> Result<BasicAuth, PolicyError> {
    let field = "spec.basicAuth.secretRef";
    let forms = [("File", SecretForm::File), ("Map", SecretForm::Map)];
    let form =
        enum_value("spec.basicAuth.format", spec.format.as_deref(), &forms)?.unwrap_or(SecretForm::File);
    let realm = spec.realm.as_deref().unwrap_or_default();
    let plain = |byte: u8| (byte.is_ascii_graphic() || byte == b' ') && byte != b'"' && byte != b'\\';
    if !realm.bytes().all(plain) {
        let problem = format!("{realm:?} has something besides visible ASCII, a quote or a backslash");
        return Err(PolicyError::new("spec.basicAuth.realm", problem));
    }
    let key = key(spec.secret_ref.namespace.as_deref(), &policy.namespace, &spec.secret_ref.name);
    check_permitted(field, Kind::Secret, &key, context)?;
    let secret = context.resources.secrets.get(&key);
    let secret = secret.ok_or_else(|| PolicyError::new(field, format!("Secret {key} does not exist")))?;
    let ReadUsers { users, unusable } = passwords::read(&secret.object, form)
        .map_err(|problem| PolicyError::new(field, format!("Secret {key}: {problem}")))?;
    if !unusable.is_empty() {
        let problem =
            format!("Secret {key}: {} cannot be verified", UnusableHash::format_locations(&unusable));
        let consequence = "no password lets that user in";
        warnings.push(PolicyWarning {
            code: "unusable-password",
            field: field.to_owned(),
            problem,
            consequence,
        });
    }
    // Distinguishes versions of the Secret that have no other visible difference.
    let version = secret.object.metadata.resource_version.as_deref();
    let version = version.map(|version| format!("@{version}")).unwrap_or_default();
    let form = if form == SecretForm::Map { ";map" } else { "" };
    Ok(BasicAuth { policy: format!("{key}{form}{version}").into(), realm: realm.into(), users })
}

fn check_permitted(
    field: &str,
    kind: Kind,
    key: &ObjectKey,
    context: PolicyContext<'_>,
) -> Result<(), PolicyError> {
    match (context.permits)(kind, key) {
        true => Ok(()),
        false => {
            let problem = format!("no ReferenceGrant lets it refer to {} {key}", kind.name());
            Err(PolicyError::new(field, problem))
        }
    }
}

/// Unlike for trusted endpoints, all references must be valid: a missing revocation list would admit someone.
fn client_verification(
    spec: &types::ClientCertificates,
    policy: &ObjectKey,
    context: PolicyContext<'_>,
) -> Result<ClientVerification, PolicyError> {
    let modes =
        [("Required", ClientCertificateMode::Required), ("Optional", ClientCertificateMode::Optional)];
    let demand = enum_value("spec.clientCertificates.mode", spec.mode.as_deref(), &modes)?;
    let depth = number("spec.clientCertificates.depth", spec.depth.map(i64::from), 0)?;
    let (mut roots, mut revoked) = (String::new(), String::new());
    for (index, reference) in spec.ca_certificate_refs.iter().enumerate() {
        let field = format!("spec.clientCertificates.caCertificateRefs[{index}]");
        let Some(object) = authority(reference, &policy.namespace) else {
            let problem = format!("\"{}\" is neither Secret nor ConfigMap", reference.kind);
            return Err(PolicyError::new(field, problem));
        };
        check_permitted(&field, object.kind, &object.key, context)?;
        let object_name = format!("{} {}", object.kind.name(), object.key);
        let entry = |name: &str| {
            object_text(&object, name, context)
                .map_err(|why| PolicyError::new(&field, format!("{object_name} {why}")))
        };
        let Some(own) = entry("ca.crt")? else {
            return Err(PolicyError::new(&field, format!("{object_name} has no ca.crt")));
        };
        let lists = entry("ca.crl")?.unwrap_or_default();
        if !are_certificates(own) {
            let problem = format!("ca.crt of {object_name} has no certificate, or one that cannot be read");
            return Err(PolicyError::new(&field, problem));
        }
        if let Some(why) = only_unsupported_keys(own) {
            return Err(PolicyError::new(&field, format!("ca.crt of {object_name} verifies nothing: {why}")));
        }
        if !are_revocation_lists(lists) {
            let problem = format!("ca.crl of {object_name} has no list, or one that cannot be read");
            return Err(PolicyError::new(&field, problem));
        }
        for (all, own) in [(&mut roots, own), (&mut revoked, lists)] {
            all.push_str(own.trim_end());
            all.push('\n');
        }
    }
    if roots.is_empty() {
        return Err(PolicyError::new("spec.clientCertificates.caCertificateRefs", "it names no authority"));
    }
    let revoked: Arc<str> = if revoked.trim().is_empty() { "".into() } else { revoked.into() };
    let demand = demand.unwrap_or(ClientCertificateMode::Required);
    Ok(ClientVerification { roots: roots.into(), revoked, depth, demand })
}

/// An entry of a Secret or ConfigMap.
fn object_text<'c>(
    object: &ObjectRef,
    entry: &str,
    context: PolicyContext<'c>,
) -> Result<Option<&'c str>, &'static str> {
    let missing = "does not exist";
    if object.kind == Kind::ConfigMap {
        let map = context.resources.config_maps.get(&object.key).ok_or(missing)?;
        return Ok(map.object.data.as_ref().and_then(|data| data.get(entry)).map(String::as_str));
    }
    let secret = context.resources.secrets.get(&object.key).ok_or(missing)?;
    match secret_value(&secret.object, entry).map(std::str::from_utf8) {
        None => Ok(None),
        Some(Ok(text)) => Ok(Some(text)),
        Some(Err(_)) => Err("has an entry that is no text"),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use fairway_model::{AuthService, LimitKey, LimitScope};
    use fairway_objects::object::Object;
    use fairway_objects::resources::Change;
    use k8s_openapi::api::core::v1::Secret;
    use serde_json::{Value, json};

    use super::*;

    fn resources() -> Resources {
        let secret: Secret = serde_json::from_value(json!({
            "metadata": {"name": "users", "namespace": "shop", "resourceVersion": "7"},
            "stringData": {"auth": "alice:{PLAIN}x\nbob:nothing\n", "jwks.json": PUBLISHED_KEYS},
        }))
        .unwrap();
        let partners: Secret = serde_json::from_value(json!({
            "metadata": {"name": "partners", "namespace": "shop", "resourceVersion": "8"},
            "stringData": {"billing": "a key of a partner".replace(' ', "-")},
        }))
        .unwrap();
        let mut resources = Resources::default();
        resources.apply(Change::Set(Object::Secret(Arc::new(secret)), None));
        resources.apply(Change::Set(Object::Secret(Arc::new(partners)), None));
        resources
    }

    fn parse_spec(spec: Value) -> Result<PolicyReading<Security>, PolicyError> {
        let resources = resources();
        let context = PolicyContext { resources: &resources, permits: &|_, key| &*key.namespace == "shop" };
        read(&ObjectKey::new("shop", "login"), &serde_json::from_value(spec).expect("a spec"), context)
    }

    #[test]
    fn guards_run_from_cheapest_to_most_expensive() {
        let read = parse_spec(json!({
            "externalAuth": {"backendRef": {"name": "auth", "port": 80}, "path": "/check?u=$request_uri"},
            "basicAuth": {"secretRef": {"name": "users"}, "realm": "shop"},
            "sourceRanges": {"deny": ["192.0.2.1"]},
            "concurrencyLimit": {"requests": 5},
            "rateLimits": [{"requests": 10, "per": "1m", "burst": 3}],
        }))
        .unwrap();
        let guards = read.value.guards(Some("shop/auth:80".into()));
        let [
            Guard::RateLimit(rate),
            Guard::ConcurrencyLimit(most),
            Guard::Access(_),
            Guard::BasicAuth(basic),
            Guard::ExternalAuth(external),
        ] = &guards[..]
        else {
            panic!("{guards:?}")
        };
        assert_eq!((rate.requests, rate.per, rate.burst, rate.status), (10, Duration::from_secs(60), 3, 429));
        assert_eq!((most.max, most.status, &*basic.policy), (5, 503, "shop/users@7"));
        let service = AuthService::Backend { backend: "shop/auth:80".into(), host: "auth.shop.svc".into() };
        assert_eq!(
            (&external.service, external.target.to_string()),
            (&service, "/check?u=$request_uri".into())
        );
        assert_eq!(read.warnings[0].code, "unusable-password");
    }

    /// The public key of RFC 8037 appendix A.2.
    const PUBLISHED_KEYS: &str =
        r#"{"keys": [{"kty": "OKP", "crv": "Ed25519", "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]}"#;

    fn jwt() -> Value {
        json!({"issuers": [{"issuer": "a", "keys": {"ref": {"kind": "Secret", "name": "users"}}}]})
    }

    #[test]
    fn identity_limits_follow_authentication() {
        let read = parse_spec(json!({
            "rateLimits": [
                {"requests": 1, "by": "Claim", "claim": "sub"},
                {"requests": 2, "by": "ApiKeyClient"},
                {"requests": 3, "by": "ClientAddress", "scope": "Fleet"},
            ],
            "authorization": {"rules": [{"action": "Allow", "scopes": ["read"]}]},
            "externalAuth": {"backendRef": {"name": "auth", "port": 80}},
            "apiKey": {"secretRefs": [{"name": "partners"}]},
            "jwt": jwt(),
            "basicAuth": {"secretRef": {"name": "users"}},
            "sourceRanges": {"deny": ["192.0.2.1"]},
        }))
        .unwrap();
        let guards = read.value.guards(None);
        let [
            Guard::RateLimit(by_address),
            Guard::Access(_),
            Guard::BasicAuth(_),
            Guard::Jwt(_),
            Guard::ApiKey(keys),
            Guard::ExternalAuth(_),
            Guard::Authorize(_),
            Guard::RateLimit(by_claim),
            Guard::RateLimit(by_client),
        ] = &guards[..]
        else {
            panic!("{guards:?}")
        };
        assert_eq!((by_address.requests, &by_address.key), (3, &LimitKey::Address));
        assert_eq!((by_address.scope, by_claim.scope), (LimitScope::Fleet, LimitScope::Replica));
        assert_eq!((by_claim.requests, &by_claim.key), (1, &LimitKey::Claim("sub".into())));
        assert_eq!((by_client.requests, &by_client.key), (2, &LimitKey::ApiClient));
        assert_eq!(&*by_claim.policy, "SecurityPolicy/shop/login/rateLimits/0");
        assert_eq!(&*keys.policy, "shop/partners@8");
    }

    #[test]
    fn grpc_checks_are_bounded() {
        let grpc_policy = |fields: Value| {
            let read = parse_spec(json!({"externalAuth": fields})).unwrap();
            match read.value.guards(Some("shop/opa:9191;h2c".into())).remove(0) {
                Guard::GrpcAuth(auth) => *auth,
                other => panic!("{other:?}"),
            }
        };
        let backend = json!({"name": "opa", "port": 9191});
        let auth = grpc_policy(json!({"backendRef": backend, "grpc": {}}));
        assert_eq!((&*auth.service.authority, auth.max_body), ("opa.shop.svc", 0));
        assert_eq!(auth.service.timeouts.request, Some(Duration::from_secs(10)));
        assert!(!auth.failure_mode_allow && !auth.allow_partial_body && auth.context.is_empty());
        let auth =
            grpc_policy(json!({"backendRef": backend, "host": "opa.test", "timeout": "250ms", "grpc": {
                "maxRequestBytes": "1Mi", "allowPartialBody": true, "failureMode": "Open",
                "contextExtensions": {"b": "2", "a": "1"},
            }}));
        assert_eq!((&*auth.service.authority, auth.max_body), ("opa.test", 1 << 20));
        let timeouts = auth.service.timeouts;
        assert_eq!((timeouts.connect, timeouts.request), (timeouts.read, Some(Duration::from_millis(250))));
        assert!(auth.failure_mode_allow && auth.allow_partial_body);
        assert_eq!(auth.context, [("a".into(), "1".into()), ("b".into(), "2".into())]);
    }

    #[test]
    fn references_are_watched() {
        let spec = serde_json::from_value(json!({
            "jwt": {"issuers": [
                {"issuer": "a", "keys": {"ref": {"kind": "ConfigMap", "name": "keys", "namespace": "bank"}}},
                {"issuer": "b", "keys": {"url": "http://keys.login.svc/"}},
            ]},
            "apiKey": {"secretRefs": [{"name": "partners"}]},
        }))
        .unwrap();
        let named = named_references(&spec, "shop");
        let named: Vec<_> = named.iter().map(|it| format!("{} {}", it.kind.name(), it.key)).collect();
        assert_eq!(named, ["Secret shop/partners", "ConfigMap bank/keys"]);
        assert_eq!(url_services(&spec), [ObjectKey::new("login", "keys")]);
    }

    #[test]
    fn an_empty_policy_guards_nothing() {
        assert_eq!(parse_spec(json!({})).unwrap().value.guards(None), Vec::new());
    }

    #[test]
    fn unreadable_policies_are_rejected() {
        let auth_policy = |fields: Value| {
            let mut auth = json!({"backendRef": {"name": "auth", "port": 80}});
            auth.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
            json!({ "externalAuth": auth })
        };
        let limit_policy = |fields: Value| {
            let mut limit = json!({"requests": 1});
            limit.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
            json!({"rateLimits": [limit]})
        };
        for (spec, field) in [
            (json!({"sourceRanges": {}}), "spec.sourceRanges"),
            (json!({"sourceRanges": {"allow": ["all"]}}), "spec.sourceRanges.allow"),
            (json!({"rateLimits": [{"requests": 0}]}), "spec.rateLimits[0].requests"),
            (json!({"rateLimits": [{"requests": 1, "per": "0s"}]}), "spec.rateLimits[0].per"),
            (json!({"rateLimits": [{"requests": 1, "status": 200}]}), "spec.rateLimits[0].status"),
            (json!({"rateLimits": [{"requests": 1, "status": 600}]}), "spec.rateLimits[0].status"),
            (json!({"rateLimits": [{"requests": 1, "scope": "fleet"}]}), "spec.rateLimits[0].scope"),
            (json!({"concurrencyLimit": {"requests": -1}}), "spec.concurrencyLimit.requests"),
            (json!({"basicAuth": {"secretRef": {"name": "gone"}}}), "spec.basicAuth.secretRef"),
            (
                json!({"basicAuth": {"secretRef": {"name": "users", "namespace": "bank"}}}),
                "spec.basicAuth.secretRef",
            ),
            (json!({"basicAuth": {"secretRef": {"name": "users"}, "realm": "\""}}), "spec.basicAuth.realm"),
            (json!({"clientCertificates": {}}), "spec.clientCertificates.caCertificateRefs"),
            (
                json!({"clientCertificates": {"caCertificateRefs": [{"kind": "Secret", "name": "users"}]}}),
                "spec.clientCertificates.caCertificateRefs[0]",
            ),
            (json!({"replaceableBy": "Everybody"}), "spec.replaceableBy"),
            (auth_policy(json!({"path": "/$arg_x"})), "spec.externalAuth.path"),
            (auth_policy(json!({"method": "TRACE"})), "spec.externalAuth.method"),
            (auth_policy(json!({"responseHeaders": ["Connection"]})), "spec.externalAuth.responseHeaders"),
            (auth_policy(json!({"signInUrl": "login"})), "spec.externalAuth.signInUrl"),
            (auth_policy(json!({"host": "a/b"})), "spec.externalAuth.host"),
            (auth_policy(json!({"timeout": "soon"})), "spec.externalAuth.timeout"),
            (auth_policy(json!({"grpc": {}, "path": "/"})), "spec.externalAuth.path"),
            (auth_policy(json!({"grpc": {}, "method": "GET"})), "spec.externalAuth.method"),
            (
                auth_policy(json!({"grpc": {}, "responseHeaders": ["X-User"]})),
                "spec.externalAuth.responseHeaders",
            ),
            (auth_policy(json!({"grpc": {}, "signInUrl": "/login"})), "spec.externalAuth.signInUrl"),
            (auth_policy(json!({"grpc": {}, "timeout": "0s"})), "spec.externalAuth.timeout"),
            (
                auth_policy(json!({"grpc": {"maxRequestBytes": 1_048_577}})),
                "spec.externalAuth.grpc.maxRequestBytes",
            ),
            (auth_policy(json!({"grpc": {"failureMode": "Shut"}})), "spec.externalAuth.grpc.failureMode"),
            (
                auth_policy(json!({"grpc": {"contextExtensions": {"a": "x".repeat(1025)}}})),
                "spec.externalAuth.grpc.contextExtensions",
            ),
            (json!({"jwt": {}}), "spec.jwt.issuers"),
            (json!({"apiKey": {"secretRefs": [{"name": "gone"}]}}), "spec.apiKey.secretRefs[0]"),
            (
                json!({"apiKey": {"secretRefs": [{"name": "partners", "namespace": "bank"}]}}),
                "spec.apiKey.secretRefs[0]",
            ),
            (
                json!({"authorization": {"rules": [{"action": "Allow", "claims": []}]}}),
                "spec.authorization.rules[0].claims",
            ),
            (limit_policy(json!({"by": "Somebody"})), "spec.rateLimits[0].by"),
            (limit_policy(json!({"by": "Claim", "claim": "sub"})), "spec.rateLimits[0].by"),
            (limit_policy(json!({"by": "ApiKeyClient"})), "spec.rateLimits[0].by"),
            (limit_policy(json!({"by": "Claim"})), "spec.rateLimits[0].claim"),
            (limit_policy(json!({"claim": "sub"})), "spec.rateLimits[0].claim"),
        ] {
            assert_eq!(parse_spec(spec.clone()).unwrap_err().field, field, "{spec}");
        }
    }

    #[test]
    fn a_refused_policy_guards_nothing_and_cannot_be_replaced() {
        let refused = types::RefusedField { field: "spec.sourceRange".into(), problem: "is unknown".into() };
        let spec = SecurityPolicySpec {
            replaceable_by: Some("All".into()),
            refused: Some(refused),
            ..SecurityPolicySpec::default()
        };
        let resources = resources();
        let context = PolicyContext { resources: &resources, permits: &|_, _| true };
        let wrong = PolicyError::new("spec.sourceRange", "is unknown");
        assert_eq!(read(&ObjectKey::new("shop", "login"), &spec, context).unwrap_err(), wrong);
        assert_eq!(read_replaceable(&spec), Err(wrong));
    }
}
