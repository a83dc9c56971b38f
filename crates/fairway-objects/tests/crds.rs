//! The types and the CRDs in the chart have the same fields.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use fairway_objects::custom_resource::CustomResource;
use fairway_objects::gateway_api::PolicyTargetReference;
use fairway_objects::kinds::GATEWAY_KINDS;
use fairway_objects::manifest::{self, Schema};
use fairway_objects::policies::{
    AdaptiveConcurrency, ApiKey, Authorization, AuthorizationRule, BackendLimits, BackendTrafficPolicy,
    BackendTrafficPolicySpec, BasicAuth, BlockedClients, BodyBufferSize, BodyBuffering, ClaimHeader,
    ClaimValues, ClientCertificates, ClientLimits, ClientTimeouts, ClientTracing, ClientTrafficPolicy,
    ClientTrafficPolicySpec, CompressionCoding, ConcurrencyLimit, CredentialSource, DirectResponse,
    ErrorPages, ExtensionPolicy, ExtensionPolicySpec, ExternalAuth, ExternalProcessor, ForwardedHeaders,
    GROUP, GrpcAuth, HashPart, HeaderCondition, HeaderMutationRules, HeaderValue, HeaderValues, Health,
    HealthCheck, Hedging, Http3, Jwt, JwtIssuer, JwtKeys, LatencyEjection, LoadBalancing, MessageProcessing,
    NamedValue, Oidc, OidcParameter, OutlierEjection, PageService, ParentBasedSampling, PathSubstitution,
    ProcessingMode, ProxyProtocol, RateLimit, ResponseCompression, RetryPolicy, RouteFilter, RouteFilterSpec,
    SamplingRate, SecretOrConfigMapReference, SecretReference, SecurityPolicy, SecurityPolicySpec,
    ServiceReference, SessionCookie, Size, SourceRanges, VERSION,
};
use fairway_objects::with_custom_resource;
use serde::Serialize;
use serde_json::{Map, Value, json};

/// The CRD of a policy, and the schema of its `spec`.
fn crd(resource: &str) -> (Value, Value) {
    let file = format!("../../charts/fairway/charts/policy-crds/crds/{resource}.yaml");
    let text = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(file)).unwrap();
    let crd = manifest::parse_single(&text, Schema::Core).unwrap().unwrap().to_json();
    let schema = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"].clone();
    (crd, schema)
}

/// A value with every field of a schema.
fn sample(schema: &Value) -> Value {
    if schema["x-kubernetes-int-or-string"] == json!(true) {
        return json!("1Mi");
    }
    match schema["type"].as_str().unwrap() {
        "object" if schema["x-kubernetes-preserve-unknown-fields"] == json!(true) => json!({"a": [1]}),
        "object" if schema["additionalProperties"].is_object() => {
            json!({"x": sample(&schema["additionalProperties"])})
        }
        "object" => {
            let fields = schema["properties"].as_object().unwrap();
            Value::Object(fields.iter().map(|(name, field)| (name.clone(), sample(field))).collect())
        }
        "array" => json!([sample(&schema["items"])]),
        "boolean" => json!(true),
        "integer" => json!(schema["minimum"].as_i64().unwrap_or(1)),
        "string" => schema["enum"][0].as_str().map_or_else(|| json!("x"), |first| json!(first)),
        other => panic!("no type: {other}"),
    }
}

/// The fields of a value that a schema lacks.
fn unknown(value: &Value, schema: &Value, at: &str) -> Vec<String> {
    let any = &schema["additionalProperties"];
    match value {
        Value::Object(_) if schema["x-kubernetes-preserve-unknown-fields"] == json!(true) => Vec::new(),
        Value::Object(fields) if any.is_object() => {
            fields.iter().flat_map(|(name, field)| unknown(field, any, &format!("{at}.{name}"))).collect()
        }
        Value::Object(fields) => {
            let known = schema["properties"].as_object().cloned().unwrap_or_else(Map::new);
            let describe = |(name, field): (&String, &Value)| match known.get(name) {
                Some(schema) => unknown(field, schema, &format!("{at}.{name}")),
                None => vec![format!("{at}.{name}")],
            };
            fields.iter().flat_map(describe).collect()
        }
        Value::Array(items) => items.iter().flat_map(|it| unknown(it, &schema["items"], at)).collect(),
        _ => Vec::new(),
    }
}

fn check<T: CustomResource<Spec: Serialize>>(full: &T::Spec) {
    let (_, schema) = crd(T::URL_PATH_SEGMENT);
    let of_type = serde_json::to_value(full).unwrap();
    assert_eq!(
        unknown(&of_type, &schema, "spec"),
        Vec::<String>::new(),
        "a field that the CRD does not have"
    );
}

fn text(text: &str) -> Option<String> {
    Some(text.to_owned())
}

fn targets() -> Vec<PolicyTargetReference> {
    vec![PolicyTargetReference {
        group: "g".into(),
        kind: "k".into(),
        name: "n".into(),
        section_name: text("s"),
    }]
}

#[test]
fn every_policy_of_the_table_has_a_crd_whose_fields_are_read_and_there_is_no_other_crd() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../charts/fairway/charts/policy-crds/crds");
    let mut policies = BTreeSet::new();
    for known in GATEWAY_KINDS.iter().filter(|known| known.group == GROUP) {
        let (crd, schema) = crd(known.resource);
        policies.insert(format!("{}.yaml", known.resource));
        assert_eq!(known.versions, [VERSION]);
        assert_eq!(crd["metadata"]["name"], known.group_resource(""));
        let is_policy = schema["properties"]["targetRefs"].is_object();
        let label = &crd["metadata"]["labels"]["gateway.networking.k8s.io/policy"];
        assert_eq!(label.as_str(), is_policy.then_some("Direct"));
        assert_eq!(is_policy, known.has_conditions, "a filter has no status");
        assert_eq!(crd["spec"]["names"]["kind"], known.name);
        assert_eq!(crd["spec"]["versions"][0]["name"], VERSION);
        let of_crd = json!({ "metadata": {}, "spec": sample(&schema) });
        let read = with_custom_resource!(known.kind, K => {
            let read: K = serde_json::from_value(of_crd.clone()).unwrap();
            serde_json::to_value(&read).unwrap()
        }, _ => Value::Null);
        assert_eq!(read, of_crd, "a field of the CRD is not read");
    }
    let files = fs::read_dir(folder).unwrap().map(|file| file.unwrap().file_name().into_string().unwrap());
    assert_eq!(files.collect::<BTreeSet<_>>(), policies);
}

// No value below may use `..`: a new field must be added here.

fn values() -> Vec<HeaderValue> {
    vec![HeaderValue { type_: text("Exact"), value: "x".into() }]
}

#[test]
fn a_client_traffic_policy_has_the_fields_of_its_crd() {
    let ranges = vec!["10.0.0.0/8".to_owned()];
    check::<ClientTrafficPolicy>(&ClientTrafficPolicySpec {
        target_refs: targets(),
        proxy_protocol: Some(ProxyProtocol { mode: "Required".into(), trusted_sources: ranges.clone() }),
        http3: Some(Http3 { mode: text("Enabled"), early_data: text("Disabled") }),
        forwarded_headers: Some(ForwardedHeaders {
            trusted_sources: ranges,
            chain: text("Append"),
            address_header: text("X-Client"),
            scope: text("Address"),
        }),
        header_names: text("Any"),
        unknown_names: text("Reject"),
        blocked_clients: Some(BlockedClients { user_agents: values(), referers: values() }),
        timeouts: Some(ClientTimeouts {
            idle: text("1s"),
            request_head: text("1s"),
            tls_handshake: text("1s"),
        }),
        limits: Some(ClientLimits {
            connections: Some(1),
            requests_per_connection: Some(1),
            concurrent_streams: Some(1),
            request_body: Some(Size("8Mi".into())),
        }),
        tracing: Some(ClientTracing {
            sampling_rate: Some(SamplingRate { numerator: Some(1), denominator: Some(100) }),
            parent_based_sampling: Some(ParentBasedSampling { mode: text("Disabled") }),
            incoming_context: text("Continue"),
            propagation: text("W3CAndB3"),
        }),
    });
}

fn buffer() -> BodyBufferSize {
    BodyBufferSize { memory: Some(Size("16Ki".into())), disk: Some(Size("1Gi".into())) }
}

#[test]
fn a_backend_traffic_policy_has_the_fields_of_its_crd() {
    check::<BackendTrafficPolicy>(&BackendTrafficPolicySpec {
        target_refs: targets(),
        load_balancing: Some(LoadBalancing {
            algorithm: text("Random"),
            traffic_distribution: text("PreferSameZone"),
            hash: vec![HashPart { type_: "Header".into(), name: text("x") }],
        }),
        session_cookie: Some(SessionCookie {
            name: "route".into(),
            path: text("/"),
            domain: text("a.test"),
            max_age: text("1h"),
            secure: text("Always"),
            same_site: text("Lax"),
            stickiness: text("Balanced"),
            on_failure: text("Move"),
        }),
        retry: Some(RetryPolicy {
            attempts: Some(1),
            backoff: text("1s"),
            connect_time: text("1s"),
            budget: text("None"),
            budget_percent: Some(1),
            min_retries_per_second: Some(1),
        }),
        outlier_ejection: Some(OutlierEjection {
            mode: text("Off"),
            consecutive_failures: Some(1),
            first_time: text("1s"),
            longest_time: text("1s"),
            latency: Some(LatencyEjection {
                factor: Some(3),
                min_responses: Some(20),
                interval: text("10s"),
            }),
        }),
        health: Some(Health {
            check: Some(HealthCheck {
                type_: text("HTTP"),
                path: text("/"),
                host: text("a.test"),
                expected_statuses: vec![200],
                service: text("a.B"),
                interval: text("10s"),
                timeout: text("1s"),
                unhealthy_threshold: Some(1),
                healthy_threshold: Some(1),
            }),
            slow_start: text("1s"),
            panic_threshold: Some(1),
        }),
        limits: Some(BackendLimits {
            requests_per_endpoint: Some(1),
            requests: Some(1),
            connections: Some(1),
            adaptive_concurrency: Some(AdaptiveConcurrency { minimum: Some(1), maximum: Some(1) }),
            pending_requests: Some(1),
            retries: Some(1),
            request_body: Some(Size("8Mi".into())),
        }),
        hedging: Some(Hedging { connect_delay: text("1s") }),
        compression: Some(ResponseCompression {
            mode: text("Disabled"),
            codings: vec![CompressionCoding { type_: "Gzip".into(), level: Some(1) }],
            min_content_length: Some(Size("1Ki".into())),
            content_types: vec!["text/plain".into()],
        }),
        buffering: Some(BodyBuffering { requests: Some(buffer()), responses: Some(buffer()) }),
        error_pages: Some(ErrorPages {
            statuses: vec![404],
            backend_ref: PageService { name: "p".into(), port: 80 },
        }),
    });
}

fn sources() -> Vec<CredentialSource> {
    vec![CredentialSource { type_: "Header".into(), name: "Authorization".into(), prefix: text("Bearer ") }]
}

fn claims() -> Vec<ClaimValues> {
    vec![ClaimValues { name: "groups".into(), values: vec!["staff".into()] }]
}

fn jwt() -> Jwt {
    let authority =
        SecretOrConfigMapReference { kind: "Secret".into(), name: "ca".into(), namespace: text("a") };
    let set = SecretOrConfigMapReference { kind: "Secret".into(), name: "keys".into(), namespace: text("a") };
    Jwt {
        realm: text("shop"),
        clock_skew: text("1s"),
        from: sources(),
        issuers: vec![JwtIssuer {
            issuer: "https://login.test".into(),
            audiences: vec!["shop".into()],
            keys: JwtKeys {
                url: text("https://login.test/keys"),
                ca_certificate_refs: vec![authority],
                reference: Some(set),
            },
            required_claims: claims(),
            required_scopes: vec!["read".into()],
            claims_to_headers: vec![ClaimHeader { claim: "sub".into(), header: "X-User".into() }],
        }],
    }
}

fn oidc() -> Oidc {
    Oidc {
        issuer: "https://login.test".into(),
        metadata_url: text("https://login.test/metadata"),
        additional_hosts: vec!["keys.login.test".into()],
        ca_certificate_refs: vec![SecretOrConfigMapReference {
            kind: "Secret".into(),
            name: "ca".into(),
            namespace: text("a"),
        }],
        client_id: "shop".into(),
        client_secret_ref: Some(SecretReference { name: "login".into(), namespace: text("a") }),
        scopes: vec!["profile".into()],
        parameters: vec![OidcParameter { name: "audience".into(), value: "shop".into() }],
        callback_path: text("/back"),
        logout_path: text("/out"),
        after_logout_path: text("/bye"),
        back_channel_logout_path: text("/told"),
        session_lifetime: text("1h"),
        clock_skew: text("1s"),
        forward_access_token: Some(true),
        required_claims: claims(),
        claims_to_headers: vec![ClaimHeader { claim: "sub".into(), header: "X-User".into() }],
    }
}

#[test]
fn a_security_policy_has_the_fields_of_its_crd() {
    let ranges = vec!["10.0.0.0/8".to_owned()];
    let secret = SecretReference { name: "users".into(), namespace: text("a") };
    check::<SecurityPolicy>(&SecurityPolicySpec {
        target_refs: targets(),
        replaceable_by: text("All"),
        source_ranges: Some(SourceRanges { allow: ranges.clone(), deny: ranges.clone() }),
        rate_limits: vec![RateLimit {
            requests: 1,
            per: text("1m"),
            burst: Some(1),
            status: Some(429),
            exempt: ranges.clone(),
            by: text("Claim"),
            claim: text("sub"),
            scope: text("Fleet"),
        }],
        concurrency_limit: Some(ConcurrencyLimit { requests: 1, status: Some(503), exempt: ranges.clone() }),
        client_certificates: Some(ClientCertificates {
            ca_certificate_refs: vec![SecretOrConfigMapReference {
                kind: "Secret".into(),
                name: "ca".into(),
                namespace: text("a"),
            }],
            mode: text("Optional"),
            depth: Some(1),
        }),
        basic_auth: Some(BasicAuth { secret_ref: secret.clone(), format: text("Map"), realm: text("shop") }),
        jwt: Some(jwt()),
        oidc: Some(oidc()),
        api_key: Some(ApiKey { from: sources(), secret_refs: vec![secret], client_header: text("X-Client") }),
        external_auth: Some(ExternalAuth {
            backend_ref: ServiceReference { name: "login".into(), namespace: text("a"), port: 80 },
            host: text("a.test"),
            path: text("/auth"),
            method: text("GET"),
            response_headers: vec!["X-User".into()],
            sign_in_url: text("/login"),
            timeout: text("1s"),
            grpc: Some(GrpcAuth {
                max_request_bytes: Some(Size("8Ki".into())),
                allow_partial_body: Some(true),
                failure_mode: text("Open"),
                context_extensions: [("a".into(), "b".into())].into(),
            }),
        }),
        authorization: Some(Authorization {
            rules: vec![AuthorizationRule {
                action: "Allow".into(),
                sources: Some(ranges),
                countries: Some(vec!["DE".into()]),
                asns: Some(vec![64500]),
                methods: Some(vec!["GET".into()]),
                claims: Some(claims()),
                scopes: Some(vec!["read".into()]),
                api_key_clients: Some(vec!["billing".into()]),
                headers: Some(vec![HeaderCondition {
                    type_: text("Exact"),
                    name: "X-Tenant".into(),
                    value: "acme".into(),
                }]),
            }],
        }),
        refused: None,
    });
}

#[test]
fn an_extension_policy_has_the_fields_of_its_crd() {
    let message = || {
        let (headers, trailers) = (text("Send"), text("Send"));
        Some(MessageProcessing { headers, body: text("Buffered"), trailers })
    };
    let metadata = json!({"rule": 5}).as_object().cloned().unwrap_or_default();
    check::<ExtensionPolicy>(&ExtensionPolicySpec {
        target_refs: targets(),
        ext_proc: vec![ExternalProcessor {
            backend_ref: ServiceReference { name: "waf".into(), namespace: text("a"), port: 9000 },
            host: text("a.test"),
            message_timeout: text("1s"),
            failure_mode: text("Open"),
            processing_mode: Some(ProcessingMode { request: message(), response: message() }),
            allow_mode_override: Some(true),
            mutation_rules: Some(HeaderMutationRules {
                allow_path_and_method: Some(true),
                allow_forwarded: Some(true),
                denied: vec!["x-user".into()],
                error_on_denied: Some(true),
            }),
            max_buffered_bytes: Some(Size("1Mi".into())),
            attributes: vec!["request.path".into()],
            metadata: [("a".to_owned(), metadata)].into(),
        }],
        refused: None,
    });
}

#[test]
fn a_filter_has_the_fields_of_its_crd() {
    let substitution = || {
        Some(PathSubstitution { pattern: "/".into(), substitution: "/$1".into(), ignore_case: Some(true) })
    };
    let named = || vec![NamedValue { name: "X-A".into(), value: "a".into() }];
    let headers = || Some(HeaderValues { set: named(), add: named(), remove: vec!["X-B".into()] });
    check::<RouteFilter>(&RouteFilterSpec {
        direct_response: Some(DirectResponse {
            status_code: Some(200),
            content_type: text("text/plain"),
            body: text("x"),
        }),
        path_rewrite: substitution(),
        forwarded_prefix: substitution(),
        request_headers: headers(),
        response_headers: headers(),
    });
}
