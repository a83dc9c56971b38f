//! Exchanges a code or refresh token for tokens: the token request and its response (RFC 6749 §4.1.3, §5, §6).

use std::fmt;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};

use crate::json::parse_object;

/// Authenticates the client to the provider.
#[derive(Clone, Copy)]
pub struct ClientCredentials<'c> {
    /// `client_id`.
    pub id: &'c str,
    /// Its secret; `None` for a public client, which uses PKCE alone.
    pub secret: Option<&'c str>,
    /// Whether the secret is sent in the body instead of `Authorization`.
    pub secret_in_body: bool,
}

/// A token request: POST with an `application/x-www-form-urlencoded` body.
pub struct TokenRequest {
    /// The value of `Authorization`.
    pub authorization: Option<String>,
    /// The body.
    pub body: String,
}

/// The tokens of a response.
#[derive(Clone, PartialEq, Eq)]
pub struct Tokens {
    /// For resource servers.
    pub access_token: String,
    /// Identifies the user. Unverified.
    pub id_token: Option<String>,
    /// For refreshing tokens.
    pub refresh_token: Option<String>,
    /// Lifetime of the access token.
    pub expires_in: Option<Duration>,
}

/// The response contains no usable tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidTokens;

impl TokenRequest {
    /// Exchanges the code of a login.
    #[must_use]
    pub fn for_code(client: ClientCredentials<'_>, code: &str, redirect_uri: &str, verifier: &str) -> Self {
        Self::new(
            client,
            &[
                ("grant_type", "authorization_code"),
                ("code", code),
                ("redirect_uri", redirect_uri),
                ("code_verifier", verifier),
            ],
        )
    }

    /// Refreshes the tokens of a session.
    #[must_use]
    pub fn for_refresh(client: ClientCredentials<'_>, refresh_token: &str) -> Self {
        Self::new(client, &[("grant_type", "refresh_token"), ("refresh_token", refresh_token)])
    }

    fn new(client: ClientCredentials<'_>, parameters: &[(&str, &str)]) -> Self {
        let mut body = form_urlencoded::Serializer::new(String::new());
        body.extend_pairs(parameters);
        let authorization = match client.secret {
            // Both are form-encoded first (RFC 6749 §2.3.1).
            Some(secret) if !client.secret_in_body => {
                let password = [encode(client.id), encode(secret)].join(":");
                Some(format!("Basic {}", STANDARD.encode(password)))
            }
            secret => {
                body.append_pair("client_id", client.id);
                if let Some(secret) = secret {
                    body.append_pair("client_secret", secret);
                }
                None
            }
        };
        Self { authorization, body: body.finish() }
    }
}

fn encode(text: &str) -> String {
    form_urlencoded::byte_serialize(text.as_bytes()).collect()
}

impl Tokens {
    /// Parses a response with status 200.
    ///
    /// # Errors
    /// It has no Bearer access token, or another member is invalid.
    pub fn parse(text: &[u8]) -> Result<Self, InvalidTokens> {
        let response = parse_object(text).ok_or(InvalidTokens)?;
        let kind = response.get("token_type").and_then(Value::as_str).ok_or(InvalidTokens)?;
        if !kind.eq_ignore_ascii_case("Bearer") {
            return Err(InvalidTokens);
        }
        // Some providers send it as a string.
        let seconds = |value: &Value| value.as_u64().or_else(|| value.as_str()?.parse().ok());
        let expires_in = match response.get("expires_in") {
            None | Some(Value::Null) => None,
            Some(value) => Some(Duration::from_secs(seconds(value).ok_or(InvalidTokens)?)),
        };
        Ok(Self {
            access_token: token(&response, "access_token")?.ok_or(InvalidTokens)?,
            id_token: token(&response, "id_token")?,
            refresh_token: token(&response, "refresh_token")?,
            expires_in,
        })
    }
}

/// A token (RFC 6749 Appendix A.12), which can be used in a header unchanged.
fn token(response: &Map<String, Value>, name: &str) -> Result<Option<String>, InvalidTokens> {
    match response.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) if !text.is_empty() && text.bytes().all(|it| it.is_ascii_graphic()) => {
            Ok(Some(text.clone()))
        }
        Some(_) => Err(InvalidTokens),
    }
}

/// Whether a response means that the code or refresh token is no longer valid, as opposed to a failure of the
/// provider.
#[must_use]
pub fn is_refused_grant(text: &[u8]) -> bool {
    parse_object(text).is_some_and(|response| response.get("error") == Some(&"invalid_grant".into()))
}

impl fmt::Debug for Tokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tokens").field("expires_in", &self.expires_in).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLIENT: ClientCredentials<'_> =
        ClientCredentials { id: "shop:1", secret: Some("p&s s:ä"), secret_in_body: false };

    #[test]
    fn a_code_is_exchanged_with_its_verifier_and_the_secret_of_the_client() {
        let request = TokenRequest::for_code(CLIENT, "a+b", "https://shop.example.com/cb", "secret-verifier");
        let password = STANDARD.encode("shop%3A1:p%26s+s%3A%C3%A4");
        assert_eq!(request.authorization, Some(format!("Basic {password}")));
        let body = "grant_type=authorization_code&code=a%2Bb&redirect_uri=https%3A%2F%2Fshop.example.com%2Fcb\
                    &code_verifier=secret-verifier";
        assert_eq!(request.body, body);
    }

    #[test]
    fn the_secret_stands_in_the_body_where_the_provider_wants_it_and_a_public_client_has_none() {
        let request = TokenRequest::for_refresh(ClientCredentials { secret_in_body: true, ..CLIENT }, "r");
        let body =
            "grant_type=refresh_token&refresh_token=r&client_id=shop%3A1&client_secret=p%26s+s%3A%C3%A4";
        assert_eq!((request.authorization, &*request.body), (None, body));
        let request = TokenRequest::for_refresh(ClientCredentials { secret: None, ..CLIENT }, "r");
        let body = "grant_type=refresh_token&refresh_token=r&client_id=shop%3A1";
        assert_eq!((request.authorization, &*request.body), (None, body));
    }

    #[test]
    fn tokens_are_read_and_never_shown() {
        let text = br#"{"access_token": "at", "token_type": "bearer", "expires_in": 300, "id_token": "it",
            "refresh_token": "rt", "scope": "openid", "not-before-policy": 0}"#;
        let tokens = Tokens::parse(text).unwrap();
        assert_eq!((&*tokens.access_token, tokens.id_token.as_deref()), ("at", Some("it")));
        assert_eq!(tokens.refresh_token.as_deref(), Some("rt"));
        assert_eq!(tokens.expires_in, Some(Duration::from_secs(300)));
        let shown = format!("{tokens:?}");
        assert!(!["\"at\"", "\"it\"", "\"rt\""].iter().any(|token| shown.contains(token)), "{shown}");
        let least = Tokens::parse(br#"{"access_token": "at", "token_type": "Bearer", "id_token": null}"#);
        assert_eq!(least.map(|tokens| (tokens.id_token, tokens.expires_in)), Ok((None, None)));
    }

    #[test]
    fn an_invalid_token_response_gives_no_tokens() {
        for text in [
            "",
            "<html>",
            "[]",
            r#"{"error": "invalid_grant"}"#,
            r#"{"access_token": "a"}"#,
            r#"{"access_token": "a", "token_type": "DPoP"}"#,
            r#"{"token_type": "Bearer"}"#,
            r#"{"access_token": "", "token_type": "Bearer"}"#,
            r#"{"access_token": 7, "token_type": "Bearer"}"#,
            r#"{"access_token": "a\r\nX-Admin: 1", "token_type": "Bearer"}"#,
            r#"{"access_token": "a", "access_token": "b", "token_type": "Bearer"}"#,
            r#"{"access_token": "a", "token_type": "Bearer", "expires_in": -1}"#,
            r#"{"access_token": "a", "token_type": "Bearer", "expires_in": "soon"}"#,
            r#"{"access_token": "a", "token_type": "Bearer", "refresh_token": "a b"}"#,
        ] {
            assert_eq!(Tokens::parse(text.as_bytes()), Err(InvalidTokens), "{text}");
        }
    }

    #[test]
    fn only_a_refused_grant_ends_a_session() {
        assert!(is_refused_grant(br#"{"error": "invalid_grant", "error_description": "x"}"#));
        for text in
            ["", "<html>", r#"{"error": "temporarily_unavailable"}"#, r#"{"error": ["invalid_grant"]}"#]
        {
            assert!(!is_refused_grant(text.as_bytes()), "{text}");
        }
    }
}
