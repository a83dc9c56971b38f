//! A token with which the provider says that a user has logged out elsewhere (OpenID Connect Back-Channel Logout 1.0 §2.4).

use crate::jwk::KeySet;
use crate::jws::{Expected, Token};
use crate::refusal::Refusal;

/// The member of `events` that makes a token a logout token.
const EVENT: &str = "http://schemas.openid.net/event/backchannel-logout";

/// A logout token that was read. Nothing of it is true before [`LogoutToken::verify`].
#[derive(Clone, Debug)]
pub struct LogoutToken<'t>(Token<'t>);

impl<'t> LogoutToken<'t> {
    /// Reads its compact form.
    ///
    /// # Errors
    /// As [`Token::parse`]; or it is a token of another kind.
    pub fn parse(text: &'t [u8]) -> Result<Self, Refusal> {
        let token = Token::parse_one_of(text, &["logout+jwt", "jwt"])?;
        let claims = token.claims();
        let has_event = claims
            .find("events")
            .and_then(|events| events.get(EVENT))
            .is_some_and(serde_json::Value::is_object);
        let names_somebody = claims.subject().is_some() || claims.session_id().is_some();
        // "A nonce Claim MUST NOT be present", so that no ID token can be taken for one (§2.4).
        if !has_event || !names_somebody || claims.contains("nonce") {
            return Err(Refusal::Unsupported);
        }
        Ok(Self(token))
    }

    /// As [`Token::check`]; also, the token says when it was made.
    ///
    /// # Errors
    /// The first claim that does not fit.
    pub fn check<A: AsRef<str>>(&self, expected: &Expected<'_, A>) -> Result<(), Refusal> {
        self.0.check(expected)?;
        match self.0.claims().time("iat") {
            Ok(Some(_)) => Ok(()),
            _ => Err(Refusal::Malformed),
        }
    }

    /// As [`Token::verify`].
    ///
    /// # Errors
    /// As [`Token::verify`].
    pub fn verify(&self, keys: &KeySet) -> Result<(), Refusal> {
        self.0.verify(keys)
    }

    /// The session that has ended, where only one has.
    #[must_use]
    pub fn session_id(&self) -> Option<&str> {
        self.0.claims().session_id()
    }

    /// The user.
    #[must_use]
    pub fn subject(&self) -> Option<&str> {
        self.0.claims().subject()
    }
}
