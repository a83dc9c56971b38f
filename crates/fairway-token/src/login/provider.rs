//! OpenID provider metadata (OpenID Connect Discovery 1.0 §3).

use std::fmt;

use serde_json::{Map, Value};

use crate::json::parse_object;

/// Maximum length of the metadata, in bytes.
pub const MAX_METADATA_BYTES: usize = 64 << 10;

/// The metadata of a usable provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Provider {
    /// Where browsers are sent to log in.
    pub authorization_endpoint: Endpoint,
    /// Where a code is exchanged for tokens.
    pub token_endpoint: Endpoint,
    /// Where its keys are published.
    pub jwks_uri: Endpoint,
    /// Where browsers log out (OpenID Connect RP-Initiated Logout 1.0 §2.1).
    pub end_session_endpoint: Option<Endpoint>,
    /// Whether its authorization responses name the issuer (RFC 9207 §3).
    pub names_issuer: bool,
    /// Whether it accepts client secrets only in the body, not as a password (OpenID Connect Core 1.0 §9).
    pub wants_secret_in_body: bool,
}

/// An absolute `https` or `http` URL without user information and fragment.
#[derive(Clone, PartialEq, Eq)]
pub struct Endpoint {
    url: Box<str>,
    origin_bytes: usize,
}

/// Why the metadata of a provider is unusable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UnusableProvider {
    /// It is not a JSON object, or has duplicate names.
    NotJson,
    /// It belongs to another issuer (Discovery §4.3).
    OtherIssuer,
    /// A required member is missing.
    Missing(&'static str),
    /// A member is invalid.
    Invalid(&'static str),
    /// It does not support the code flow.
    NoCodeFlow,
    /// It supports PKCE, but not with SHA-256.
    NoPkce,
    /// It supports client authentication neither by password nor by a secret in the body.
    NoClientSecret,
}

impl Provider {
    /// Parses the metadata of `issuer`.
    ///
    /// # Errors
    /// It is unusable.
    pub fn parse(text: &[u8], issuer: &str) -> Result<Self, UnusableProvider> {
        let metadata = parse_object(text).ok_or(UnusableProvider::NotJson)?;
        // "MUST exactly match the value of issuer" (§4.3): otherwise one issuer could impersonate another.
        if metadata.get("issuer").and_then(Value::as_str) != Some(issuer) {
            return Err(UnusableProvider::OtherIssuer);
        }
        let may_be_plain = issuer.starts_with("http://");
        let endpoint = |name| endpoint(&metadata, name, may_be_plain);
        let needed = |name| endpoint(name)?.ok_or(UnusableProvider::Missing(name));
        let lists = |name: &'static str, value| list_contains(&metadata, name, value);
        if lists("response_types_supported", "code")? == Some(false) {
            return Err(UnusableProvider::NoCodeFlow);
        }
        if lists("code_challenge_methods_supported", "S256")? == Some(false) {
            return Err(UnusableProvider::NoPkce);
        }
        let authentication = "token_endpoint_auth_methods_supported";
        let takes_password = lists(authentication, "client_secret_basic")?.unwrap_or(true);
        let takes_body = lists(authentication, "client_secret_post")?.unwrap_or(false);
        let is_public = lists(authentication, "none")?.unwrap_or(false);
        if !takes_password && !takes_body && !is_public {
            return Err(UnusableProvider::NoClientSecret);
        }
        let names_issuer = metadata.get("authorization_response_iss_parameter_supported");
        Ok(Self {
            authorization_endpoint: needed("authorization_endpoint")?,
            token_endpoint: needed("token_endpoint")?,
            jwks_uri: needed("jwks_uri")?,
            end_session_endpoint: endpoint("end_session_endpoint")?,
            names_issuer: names_issuer == Some(&Value::Bool(true)),
            wants_secret_in_body: !takes_password,
        })
    }
}

fn endpoint(
    metadata: &Map<String, Value>,
    name: &'static str,
    may_be_plain: bool,
) -> Result<Option<Endpoint>, UnusableProvider> {
    let Some(value) = metadata.get(name) else { return Ok(None) };
    let endpoint = value.as_str().and_then(Endpoint::parse);
    let good = endpoint.filter(|endpoint| may_be_plain || endpoint.is_secure());
    good.map(Some).ok_or(UnusableProvider::Invalid(name))
}

/// Whether a member is a list that contains `value`; `None` if there is no such member.
fn list_contains(
    metadata: &Map<String, Value>,
    name: &'static str,
    value: &str,
) -> Result<Option<bool>, UnusableProvider> {
    let Some(list) = metadata.get(name) else { return Ok(None) };
    let list = list.as_array().ok_or(UnusableProvider::Invalid(name))?;
    Ok(Some(list.iter().any(|each| each.as_str() == Some(value))))
}

impl Endpoint {
    /// Parses a URL; `None` for any other text.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let behind = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"))?;
        let is_plain = |byte: u8| byte.is_ascii_graphic() && !b"\"<>\\^`{|}#".contains(&byte);
        if !text.bytes().all(is_plain) {
            return None;
        }
        let scheme_bytes = text.len() - behind.len();
        let authority = &behind[..behind.find(['/', '?']).unwrap_or(behind.len())];
        let is_host = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:[]".contains(&byte);
        if authority.is_empty() || authority.starts_with(':') || !authority.bytes().all(is_host) {
            return None;
        }
        let origin_bytes = scheme_bytes + authority.len();
        let origin = text[..origin_bytes].to_ascii_lowercase();
        Some(Self { url: [&origin, &text[origin_bytes..]].concat().into(), origin_bytes })
    }

    /// Scheme, host and port, in lower case.
    #[must_use]
    pub fn origin(&self) -> &str {
        &self.url[..self.origin_bytes]
    }

    /// Path and query.
    #[must_use]
    pub fn target(&self) -> String {
        match &self.url[self.origin_bytes..] {
            path if path.starts_with('/') => path.to_owned(),
            query => format!("/{query}"),
        }
    }

    /// Appends a query to the existing one.
    #[must_use]
    pub fn with_query(&self, query: &str) -> String {
        let separator = if self.url.contains('?') { '&' } else { '?' };
        format!("{self}{separator}{query}")
    }

    fn is_secure(&self) -> bool {
        self.url.starts_with("https://")
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.url)
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl fmt::Display for UnusableProvider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotJson => f.write_str("its metadata is no JSON object, or has a name twice"),
            Self::OtherIssuer => f.write_str("its metadata names another issuer"),
            Self::Missing(member) => write!(f, "its metadata has no {member}"),
            Self::Invalid(member) => write!(f, "{member} of its metadata cannot be used"),
            Self::NoCodeFlow => f.write_str("it does not support the code flow"),
            Self::NoPkce => f.write_str("it does not support PKCE with SHA-256"),
            Self::NoClientSecret => {
                f.write_str("it supports neither client_secret_basic nor client_secret_post")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const ISSUER: &str = "https://login.example.com/realms/shop";

    fn metadata() -> Value {
        json!({
            "issuer": ISSUER,
            "authorization_endpoint": "https://login.example.com/realms/shop/auth?tenant=1",
            "token_endpoint": "https://LOGIN.example.com/realms/shop/token",
            "jwks_uri": "https://login.example.com/realms/shop/certs",
            "response_types_supported": ["id_token", "code"],
        })
    }

    fn parse(metadata: &Value) -> Result<Provider, UnusableProvider> {
        Provider::parse(metadata.to_string().as_bytes(), ISSUER)
    }

    #[test]
    fn the_metadata_of_a_provider_is_read() {
        let provider = parse(&metadata()).unwrap();
        assert_eq!(provider.token_endpoint.origin(), "https://login.example.com");
        assert_eq!(provider.token_endpoint.target(), "/realms/shop/token");
        assert_eq!(
            provider.authorization_endpoint.with_query("a=b"),
            "https://login.example.com/realms/shop/auth?tenant=1&a=b"
        );
        assert!(!provider.names_issuer && !provider.wants_secret_in_body);
        assert_eq!(provider.end_session_endpoint, None);
        let mut metadata = metadata();
        metadata["end_session_endpoint"] = json!("https://login.example.com/logout");
        metadata["authorization_response_iss_parameter_supported"] = json!(true);
        metadata["token_endpoint_auth_methods_supported"] = json!(["client_secret_post", "private_key_jwt"]);
        metadata["code_challenge_methods_supported"] = json!(["plain", "S256"]);
        let provider = parse(&metadata).unwrap();
        assert!(provider.names_issuer && provider.wants_secret_in_body);
        assert!(provider.end_session_endpoint.is_some());
    }

    #[test]
    fn metadata_that_would_mislead_is_refused() {
        let refused: [(&str, Value, UnusableProvider); 13] = [
            ("issuer", json!("https://login.example.com/realms/other"), UnusableProvider::OtherIssuer),
            ("issuer", json!("https://login.example.com/realms/shop/"), UnusableProvider::OtherIssuer),
            ("issuer", json!(null), UnusableProvider::OtherIssuer),
            (
                "token_endpoint",
                json!("http://login.example.com/token"),
                UnusableProvider::Invalid("token_endpoint"),
            ),
            (
                "authorization_endpoint",
                json!("javascript:alert(1)"),
                UnusableProvider::Invalid("authorization_endpoint"),
            ),
            (
                "authorization_endpoint",
                json!("https://a@evil.example/"),
                UnusableProvider::Invalid("authorization_endpoint"),
            ),
            (
                "authorization_endpoint",
                json!("https://a.example/\r\nSet-Cookie: a=b"),
                UnusableProvider::Invalid("authorization_endpoint"),
            ),
            (
                "authorization_endpoint",
                json!("https://a.example/#code"),
                UnusableProvider::Invalid("authorization_endpoint"),
            ),
            ("jwks_uri", json!(["https://a.example/"]), UnusableProvider::Invalid("jwks_uri")),
            ("response_types_supported", json!(["id_token"]), UnusableProvider::NoCodeFlow),
            (
                "response_types_supported",
                json!("code"),
                UnusableProvider::Invalid("response_types_supported"),
            ),
            ("code_challenge_methods_supported", json!(["plain"]), UnusableProvider::NoPkce),
            (
                "token_endpoint_auth_methods_supported",
                json!(["private_key_jwt"]),
                UnusableProvider::NoClientSecret,
            ),
        ];
        for (name, value, why) in refused {
            let mut metadata = metadata();
            metadata[name] = value;
            assert_eq!(parse(&metadata), Err(why), "{metadata}");
        }
        for name in ["authorization_endpoint", "token_endpoint", "jwks_uri"] {
            let mut metadata = metadata();
            metadata.as_object_mut().unwrap().remove(name);
            assert_eq!(parse(&metadata), Err(UnusableProvider::Missing(name)));
        }
        for text in ["", "[]", "<html>", r#"{"issuer": "a", "issuer": "a"}"#] {
            assert_eq!(Provider::parse(text.as_bytes(), "a"), Err(UnusableProvider::NotJson));
        }
    }

    #[test]
    fn only_absolute_urls_of_the_web_are_endpoints() {
        for text in ["https://a", "https://a:8443/b?c=d", "http://[::1]:80/", "https://a?b"] {
            assert_eq!(Endpoint::parse(text).map(|endpoint| endpoint.to_string()).as_deref(), Some(text));
        }
        for text in
            ["", "a", "/a", "//a/b", "https:///a", "https://:80/", "ftp://a", "https://a b/", "https://ä/"]
        {
            assert_eq!(Endpoint::parse(text), None, "{text}");
        }
        assert_eq!(Endpoint::parse("https://a?b").unwrap().target(), "/?b");
    }
}
