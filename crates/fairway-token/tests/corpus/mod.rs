//! Hostile tokens, grouped by defect. Each case contains named tokens, and the reason for refusal if only one is
//! correct.

use std::time::Duration;

use aws_lc_rs::hmac;
use fairway_testkit::tokens::{Signer, encode};
use fairway_token::{MAX_TOKEN_BYTES, Refusal};
use serde_json::{Value, json};

pub(crate) const ISSUER: &str = "https://login.example.com/realms/shop";
pub(crate) const AUDIENCE: &str = "shop";
pub(crate) const NOW: Duration = Duration::from_secs(1_800_000_000);

/// A named token.
pub(crate) type Named = (String, Vec<u8>);

/// A kind of hostile token.
pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) refusal: Option<Refusal>,
    pub(crate) tokens: fn(&[Signer]) -> Vec<Named>,
}

/// Valid claims.
pub(crate) fn claims() -> Value {
    json!({"iss": ISSUER, "aud": AUDIENCE, "sub": "alice", "exp": NOW.as_secs() + 300, "iat": NOW.as_secs()})
}

const fn case(name: &'static str, refusal: Option<Refusal>, tokens: fn(&[Signer]) -> Vec<Named>) -> Case {
    Case { name, refusal, tokens }
}

pub(crate) const HOSTILE: &[Case] = &[
    case("no signature", Some(Refusal::Algorithm), unsigned),
    case("signed with a public key as a secret", Some(Refusal::Algorithm), symmetric),
    case("another algorithm than that of the key", None, other_algorithm),
    case("a key of the token's own", None, own_key),
    case("a header that must be understood", Some(Refusal::Unsupported), critical),
    case("another kind of token", Some(Refusal::Unsupported), kinds),
    case("a key id that leads elsewhere", Some(Refusal::UnknownKey), key_ids),
    case("a key id that is none", Some(Refusal::Malformed), wrong_key_ids),
    case("the wrong issuer", Some(Refusal::Issuer), issuers),
    case("the wrong audience", Some(Refusal::Audience), audiences),
    case("a time that is over", Some(Refusal::Expired), expired),
    case("no expiry", Some(Refusal::NoExpiry), endless),
    case("a time that has not begun", Some(Refusal::NotYetValid), early),
    case("a time that is none", Some(Refusal::Malformed), wrong_times),
    case("names that occur twice", Some(Refusal::Malformed), duplicates),
    case("another form", Some(Refusal::Malformed), forms),
    case("another encoding", None, encodings),
    case("a header that is none", None, headers),
    case("claims that are none", Some(Refusal::Malformed), payloads),
    case("parts of two tokens", None, mixed),
    case("a signature that is cut or changed", Some(Refusal::Signature), signatures),
    case("too long", Some(Refusal::Malformed), long_tokens),
];

/// Signed by the last signer (Ed25519), with valid claims and additional header members.
fn with_header(signers: &[Signer], additions: &Value) -> Vec<u8> {
    let signer = last(signers);
    let mut header = json!({"alg": "EdDSA", "kid": signer.key_id()});
    merge(&mut header, additions);
    signer.token(&header, &claims()).into_bytes()
}

/// Signed with a valid header, and with changed claims; `null` removes one.
fn with_claims(signers: &[Signer], changed: &Value) -> Vec<u8> {
    let mut all = claims();
    merge(&mut all, changed);
    all.as_object_mut().expect("it is one").retain(|_, value| *value != json!("(absent)"));
    last(signers).token(&json!({"alg": "EdDSA", "kid": last(signers).key_id()}), &all).into_bytes()
}

fn last(signers: &[Signer]) -> &Signer {
    signers.last().expect("there is one")
}

fn merge(into: &mut Value, additions: &Value) {
    for (name, value) in additions.as_object().expect("it is one") {
        into[name] = value.clone();
    }
}

fn named<T: ToString>(cases: impl IntoIterator<Item = T>, token: impl Fn(&T) -> Vec<u8>) -> Vec<Named> {
    cases.into_iter().map(|case| (case.to_string(), token(&case))).collect()
}

fn unsigned(signers: &[Signer]) -> Vec<Named> {
    let names = ["none", "None", "NONE", "nOnE", "none ", " none", "", "null", "plain"];
    let unsigned = named(names, |name| {
        let parts = [encode(json!({"alg": name}).to_string()), encode(claims().to_string()), String::new()];
        parts.join(".").into_bytes()
    });
    let signed = names.map(|name| {
        (
            format!("{name} with a good signature"),
            last(signers).token(&json!({"alg": name}), &claims()).into_bytes(),
        )
    });
    unsigned.into_iter().chain(signed).collect()
}

/// The oldest mistake of libraries: a public key that verifies an HMAC.
fn symmetric(signers: &[Signer]) -> Vec<Named> {
    let algorithms =
        [("HS256", hmac::HMAC_SHA256), ("HS384", hmac::HMAC_SHA384), ("HS512", hmac::HMAC_SHA512)];
    let mut tokens = Vec::new();
    for signer in signers {
        let public = signer.public();
        let secrets = ["n", "x"].iter().filter_map(|name| public[*name].as_str());
        let secrets = secrets.map(str::to_owned).chain([public.to_string(), String::new()]);
        for (number, secret) in secrets.enumerate() {
            for (name, algorithm) in algorithms {
                let header = json!({"alg": name, "kid": signer.key_id()});
                let input = format!("{}.{}", encode(header.to_string()), encode(claims().to_string()));
                let tag = hmac::sign(&hmac::Key::new(algorithm, secret.as_bytes()), input.as_bytes());
                let token = format!("{input}.{}", encode(tag));
                tokens.push((
                    format!("{name} with secret {number} of {}", signer.key_id()),
                    token.into_bytes(),
                ));
            }
        }
    }
    tokens
}

fn other_algorithm(signers: &[Signer]) -> Vec<Named> {
    let names = [
        "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "ES256K", "EdDSA",
        "Ed25519",
    ];
    let mut tokens = Vec::new();
    for signer in signers {
        for name in names.iter().filter(|name| **name != signer.algorithm()) {
            // `alg` of a key is not fixed for elliptic curves, but only one is valid for each.
            let header = json!({"alg": name, "kid": signer.key_id()});
            let token = signer.token(&header, &claims());
            tokens.push((format!("{name} for {}", signer.key_id()), token.into_bytes()));
        }
    }
    tokens
}

fn own_key(signers: &[Signer]) -> Vec<Named> {
    let stranger = Signer::ed25519("stranger");
    let headers = [
        ("jwk", json!({"jwk": stranger.public()})),
        ("jwk with a good kid", json!({"jwk": stranger.public(), "kid": last(signers).key_id()})),
        ("jku", json!({"jku": "https://attacker.example.com/jwks"})),
        (
            "jku with a good kid",
            json!({"jku": "https://attacker.example.com/jwks", "kid": last(signers).key_id()}),
        ),
        ("jku of the issuer with an attack", json!({"jku": format!("{ISSUER}@attacker.example.com/jwks")})),
        ("x5u", json!({"x5u": "https://attacker.example.com/chain.pem"})),
        ("x5c", json!({"x5c": ["MIIB"], "kid": last(signers).key_id()})),
        ("x5t", json!({"x5t": "AAAA", "x5t#S256": "AAAA"})),
        ("a good kid", json!({"kid": last(signers).key_id()})),
        ("its own kid", json!({"kid": "stranger"})),
        ("no kid", json!({})),
    ];
    let token_with = |additions: &Value| {
        let mut header = json!({"alg": "EdDSA"});
        merge(&mut header, additions);
        stranger.token(&header, &claims()).into_bytes()
    };
    headers.iter().map(|(name, header)| ((*name).to_owned(), token_with(header))).collect()
}

fn critical(signers: &[Signer]) -> Vec<Named> {
    let headers = [
        json!({"crit": ["exp"]}),
        json!({"crit": ["b64"], "b64": true}),
        json!({"crit": ["b64"], "b64": false}),
        json!({"b64": false}),
        json!({"crit": []}),
        json!({"crit": "exp"}),
        json!({"crit": null}),
        json!({"crit": ["http://example.com/must-be-understood"], "http://example.com/must-be-understood": true}),
        json!({"zip": "DEF"}),
        json!({"enc": "A128GCM"}),
    ];
    named(headers, |header| with_header(signers, header))
}

fn kinds(signers: &[Signer]) -> Vec<Named> {
    let kinds = [
        json!("logout+jwt"),
        json!("dpop+jwt"),
        json!("secevent+jwt"),
        json!("application/dpop+jwt"),
        json!("JOSE"),
        json!("JWE"),
        json!(""),
        json!(null),
        json!(["JWT"]),
        json!("text/jwt"),
        json!("application/application/jwt"),
    ];
    named(kinds, |kind| with_header(signers, &json!({ "typ": kind })))
}

fn key_ids(signers: &[Signer]) -> Vec<Named> {
    let ids = [
        "",
        "ED",
        "ed ",
        "ed\u{0}",
        "../../../../dev/null",
        "/proc/self/environ",
        "' UNION SELECT 'secret' --",
        "| id",
        "https://attacker.example.com/key",
        "es256",
        "rs256",
        "{{7*7}}",
        "%65%64",
        "*",
    ];
    named(ids, |id| with_header(signers, &json!({ "kid": id })))
}

fn wrong_key_ids(signers: &[Signer]) -> Vec<Named> {
    let ids = [json!(null), json!(1), json!(["ed"]), json!({"ed": 1}), json!(true), json!("e".repeat(257))];
    named(ids, |id| with_header(signers, &json!({ "kid": id })))
}

fn issuers(signers: &[Signer]) -> Vec<Named> {
    let issuers = [
        json!("(absent)"),
        json!(null),
        json!(""),
        json!([ISSUER]),
        json!({"iss": ISSUER}),
        json!(format!("{ISSUER}/")),
        json!(ISSUER.to_uppercase()),
        json!(format!(" {ISSUER}")),
        json!(ISSUER.replace("https", "http")),
        json!(format!("{ISSUER}\u{0}")),
        json!("https://login.example.com/realms/other"),
        json!("https://login.example.com.attacker.example.com/realms/shop"),
    ];
    named(issuers, |issuer| with_claims(signers, &json!({ "iss": issuer })))
}

fn audiences(signers: &[Signer]) -> Vec<Named> {
    let audiences = [
        json!("(absent)"),
        json!(null),
        json!(""),
        json!([]),
        json!([[AUDIENCE]]),
        json!({ "aud": AUDIENCE }),
        json!("other"),
        json!(["other", "another"]),
        json!("Shop"),
        json!("shop "),
        json!("shop other"),
        json!("shop,other"),
        json!(true),
        json!([null, 1]),
    ];
    named(audiences, |audience| with_claims(signers, &json!({ "aud": audience })))
}

fn expired(signers: &[Signer]) -> Vec<Named> {
    let now = NOW.as_secs();
    named(
        [json!(0), json!(now - 30), json!(now - 31), json!(now - 86_400), json!(0.5), json!(1e-300)],
        |time| with_claims(signers, &json!({ "exp": time })),
    )
}

fn endless(signers: &[Signer]) -> Vec<Named> {
    vec![("absent".to_owned(), with_claims(signers, &json!({"exp": "(absent)"})))]
}

fn early(signers: &[Signer]) -> Vec<Named> {
    let now = NOW.as_secs();
    named([json!(now + 31), json!(now + 3600), json!(1e300)], |time| {
        with_claims(signers, &json!({ "nbf": time }))
    })
}

fn wrong_times(signers: &[Signer]) -> Vec<Named> {
    let wrong = [
        json!("1900000000"),
        json!(null),
        json!(-1),
        json!([1_900_000_000]),
        json!({}),
        json!(true),
        json!("never"),
    ];
    let expiry = named(wrong.clone(), |time| with_claims(signers, &json!({ "exp": time })));
    let begin =
        wrong.iter().map(|time| (format!("nbf {time}"), with_claims(signers, &json!({ "nbf": time }))));
    expiry.into_iter().chain(begin).collect()
}

fn duplicates(signers: &[Signer]) -> Vec<Named> {
    let good = claims().to_string();
    let header = r#"{"alg":"EdDSA"}"#;
    let inner = good.trim_start_matches('{');
    let cases = [
        ("sub", header, format!(r#"{{"sub":"admin",{inner}"#)),
        ("exp", header, format!(r#"{{"exp":9999999999,{inner}"#)),
        ("iss", header, format!(r#"{{"iss":"https://attacker.example.com",{inner}"#)),
        ("aud", header, format!(r#"{{"aud":"other",{inner}"#)),
        ("an escaped name", header, format!(r#"{{"\u0073ub":"admin",{inner}"#)),
        (
            "within a claim",
            header,
            format!(r#"{{"realm_access":{{"roles":["user"],"roles":["admin"]}},{inner}"#),
        ),
        ("alg", r#"{"alg":"none","alg":"EdDSA"}"#, good.clone()),
        ("alg, the other first", r#"{"alg":"EdDSA","alg":"none"}"#, good.clone()),
        ("kid", r#"{"alg":"EdDSA","kid":"x","kid":"ed"}"#, good.clone()),
        ("an escaped alg", r#"{"alg":"EdDSA","\u0061lg":"HS256"}"#, good),
    ];
    let token =
        |header: &str, claims: &str| last(signers).sign(&format!("{}.{}", encode(header), encode(claims)));
    cases
        .iter()
        .map(|(name, header, claims)| ((*name).to_owned(), token(header, claims).into_bytes()))
        .collect()
}

fn forms(signers: &[Signer]) -> Vec<Named> {
    let good = String::from_utf8(with_header(signers, &json!({}))).expect("it is text");
    let parts: Vec<_> = good.split('.').collect();
    let [header, payload, signature] = parts[..] else { panic!("a token has three parts") };
    let flattened = json!({"payload": payload, "protected": header, "signature": signature}).to_string();
    let cases = [
        ("empty", String::new()),
        ("a dot", ".".to_owned()),
        ("two dots", "..".to_owned()),
        ("two parts", format!("{header}.{payload}")),
        ("four parts", format!("{good}.{signature}")),
        ("five parts", format!("{header}.{payload}.{signature}.{signature}.{signature}")),
        ("no header", format!(".{payload}.{signature}")),
        ("no payload", format!("{header}..{signature}")),
        ("JSON serialization", flattened),
        ("nested", last(signers).sign(&format!("{header}.{}", encode(&good)))),
        ("nested as a text", last(signers).sign(&format!("{header}.{}", encode(json!(good).to_string())))),
        ("Bearer", format!("Bearer {good}")),
        ("a space before", format!(" {good}")),
        ("quotes", format!("\"{good}\"")),
        ("a comma", format!("{good},{good}")),
    ];
    cases.into_iter().map(|(name, token)| (name.to_owned(), token.into_bytes())).collect()
}

fn encodings(signers: &[Signer]) -> Vec<Named> {
    let good = String::from_utf8(with_header(signers, &json!({}))).expect("it is text");
    let parts: Vec<_> = good.split('.').collect();
    let [header, payload, signature] = parts[..] else { panic!("a token has three parts") };
    let signer = last(signers);
    // The last of 43 characters has two unused bits: all four forms would be the same signature.
    let trailing = |text: &str| {
        let alphabet = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
        let last = *text.as_bytes().last().expect("it is not empty");
        let index = alphabet.iter().position(|byte| *byte == last).expect("it is one of them");
        format!("{}{}", &text[..text.len() - 1], alphabet[index | 1] as char)
    };
    let cases = [
        ("a padded header", signer.sign(&format!("{header}=.{payload}")).into_bytes()),
        ("a padded payload", signer.sign(&format!("{header}.{payload}=")).into_bytes()),
        ("a padded signature", format!("{good}==").into_bytes()),
        ("a line break in the header", signer.sign(&format!("{header}\n.{payload}")).into_bytes()),
        ("a line break behind", format!("{good}\n").into_bytes()),
        ("a carriage return within", format!("{header}.{payload}\r\n.{signature}").into_bytes()),
        ("a space within the payload", signer.sign(&format!("{header}. {payload}")).into_bytes()),
        ("the alphabet of plain base64", signer.sign(&format!("{header}.+/{payload}")).into_bytes()),
        ("percent encoding", good.replace('.', "%2E").into_bytes()),
        ("a NUL", format!("{good}\0").into_bytes()),
        ("UTF-8 dots", good.replace('.', "\u{ff0e}").into_bytes()),
        ("no UTF-8", [good.as_bytes(), &[0xff]].concat()),
        ("bits that say nothing", format!("{header}.{payload}.{}", trailing(signature)).into_bytes()),
    ];
    cases.into_iter().map(|(name, token)| (name.to_owned(), token)).collect()
}

fn headers(signers: &[Signer]) -> Vec<Named> {
    let headers = [
        "",
        "{}",
        "[]",
        "null",
        "\"EdDSA\"",
        r#"{"alg":null}"#,
        r#"{"alg":["EdDSA"]}"#,
        r#"{"alg":{"EdDSA":1}}"#,
        r#"{"alg":1}"#,
        r#"{"ALG":"EdDSA"}"#,
        r#"{"alg":"eddsa"}"#,
        r#"{"alg":"EdDSA""#,
        r#"{"alg":"EdDSA"}x"#,
        r#"{'alg':'EdDSA'}"#,
        r#"{"alg":"EdDSA",}"#,
        "\u{feff}{\"alg\":\"EdDSA\"}",
    ];
    named(headers, |header| {
        last(signers).sign(&format!("{}.{}", encode(header), encode(claims().to_string()))).into_bytes()
    })
}

fn payloads(signers: &[Signer]) -> Vec<Named> {
    let good = claims().to_string();
    let deep = format!("{{\"a\":{}{}}}", "[".repeat(2000), "]".repeat(2000));
    let payloads =
        ["", "null", "[]", "\"alice\"", "1", "{", "{\"sub\":\"alice\",}", "<claims/>", &deep, &good[1..]];
    let header = encode(json!({"alg": "EdDSA"}).to_string());
    payloads
        .iter()
        .map(|payload| {
            let name = payload.chars().take(20).collect();
            (name, last(signers).sign(&format!("{header}.{}", encode(payload))).into_bytes())
        })
        .collect()
}

fn mixed(signers: &[Signer]) -> Vec<Named> {
    let split = |token: &str| token.split('.').map(str::to_owned).collect::<Vec<_>>();
    let mut admin = claims();
    admin["sub"] = "admin".into();
    signers
        .iter()
        .flat_map(|signer| {
            let header = json!({"alg": signer.algorithm(), "kid": signer.key_id()});
            let (one, other) =
                (split(&signer.token(&header, &claims())), split(&signer.token(&header, &admin)));
            let stranger = split(&Signer::ed25519("x").token(&header, &claims()));
            [
                (
                    format!("claims of another by {}", signer.key_id()),
                    [&*one[0], &*other[1], &*one[2]].join("."),
                ),
                (
                    format!("signature of another by {}", signer.key_id()),
                    [&*one[0], &*one[1], &*other[2]].join("."),
                ),
                (
                    format!("signature of a stranger for {}", signer.key_id()),
                    [&*one[0], &*one[1], &*stranger[2]].join("."),
                ),
            ]
        })
        .map(|(name, token)| (name, token.into_bytes()))
        .collect()
}

fn signatures(signers: &[Signer]) -> Vec<Named> {
    let mut tokens = Vec::new();
    for signer in signers {
        let header = json!({"alg": signer.algorithm(), "kid": signer.key_id()});
        let token = signer.token(&header, &claims());
        let (input, signature) = token.rsplit_once('.').expect("it has three parts");
        let zeros = encode(vec![0; signature.len() * 3 / 4]);
        // 4 characters are 3 bytes, so that the rest is still base64.
        for (name, signature) in [("none", ""), ("half", &signature[..40]), ("zeros", &zeros)] {
            tokens.push((
                format!("{name} of {}", signer.key_id()),
                format!("{input}.{signature}").into_bytes(),
            ));
        }
        tokens.push((
            format!("twice {}", signer.key_id()),
            format!("{input}.{}{signature}", &signature[..40]).into_bytes(),
        ));
    }
    tokens
}

fn long_tokens(signers: &[Signer]) -> Vec<Named> {
    named([MAX_TOKEN_BYTES, 64 << 10, 1 << 20], |bytes| {
        with_claims(signers, &json!({ "padding": "x".repeat(*bytes) }))
    })
}
