//! Logout notifications of a provider (OpenID Connect Back-Channel Logout 1.0), and the sessions that they end.

use crate::claims::NotATime;
use crate::digest::digest;
use crate::jws::{Expected, Token};
use crate::refusal::Refusal;

/// The member of `events` that identifies a logout token.
const EVENT: &str = "http://schemas.openid.net/event/backchannel-logout";

/// A parsed logout token. Nothing in it is trustworthy before its [`token`](Self::token) is verified.
#[derive(Clone, Debug)]
pub struct LogoutToken<'t> {
    token: Token<'t>,
    issued_at: u64,
}

/// Common id of sessions that end together; does not identify their user.
pub type SessionId = [u8; 16];

/// A set of ended sessions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EndedSessions {
    /// Their name at the provider, or their user, as a hash.
    pub id: SessionId,
    /// Only sessions whose user logged in up to this time have ended; by the clock of the provider, in seconds since
    /// 1970.
    pub until_login_at: u64,
}

impl<'t> LogoutToken<'t> {
    /// Parses the compact form.
    ///
    /// # Errors
    /// As [`Token::parse`]; or it is a token of another kind.
    pub fn parse(text: &'t [u8]) -> Result<Self, Refusal> {
        let token = Token::parse_one_of(text, &["logout+jwt", "jwt"])?;
        let claims = token.claims();
        let event = claims.find("events").and_then(|events| events.get(EVENT));
        let names = [claims.subject(), claims.session_id()];
        let names_somebody = names.into_iter().flatten().any(|name| !name.is_empty());
        // "A nonce Claim MUST NOT be present", so that no ID token can be mistaken for one (§2.4).
        if !event.is_some_and(serde_json::Value::is_object) || !names_somebody || claims.contains("nonce") {
            return Err(Refusal::Unsupported);
        }
        // "jti: REQUIRED"; a replay has no further effect.
        if !claims.contains("jti") {
            return Err(Refusal::Malformed);
        }
        let issued = claims.issued_at().map_err(|NotATime| Refusal::Malformed)?.ok_or(Refusal::Malformed)?;
        Ok(Self { token, issued_at: issued })
    }

    /// As [`Token::check`].
    ///
    /// # Errors
    /// The first claim that does not match.
    pub fn check<A: AsRef<str>>(&self, expected: &Expected<'_, A>) -> Result<(), Refusal> {
        self.token.check(expected)?;
        match self.issued_at > (expected.now + expected.skew).as_secs() {
            true => Err(Refusal::NotYetValid),
            false => Ok(()),
        }
    }

    /// The token to verify.
    #[must_use]
    pub const fn token(&self) -> &Token<'t> {
        &self.token
    }

    /// The sessions of a group that it ends: the named one, else all of its user (§2.6). If the named session of a
    /// user is unknown here, all of the user's sessions without a name end too.
    pub fn ended(&self, group: &str) -> impl Iterator<Item = EndedSessions> {
        let claims = self.token.claims();
        let filled = |name: Option<&str>| name.filter(|name| !name.is_empty()).map(str::to_owned);
        let (name, user) = (filled(claims.session_id()), filled(claims.subject()));
        let of_user = user.map(|user| EndedSessions {
            id: if name.is_some() { unnamed_id(group, &user) } else { user_id(group, &user) },
            until_login_at: self.issued_at,
        });
        // A session's name is unique.
        let named = name.map(|name| EndedSessions { id: session_id(group, &name), until_login_at: u64::MAX });
        named.into_iter().chain(of_user)
    }
}

/// The id of a session by its name at the provider.
pub(super) fn session_id(group: &str, session: &str) -> SessionId {
    hash_id("session", group, session)
}

/// The common id of all sessions of a user.
pub(super) fn user_id(group: &str, subject: &str) -> SessionId {
    hash_id("user", group, subject)
}

/// The common id of a user's sessions without a name.
pub(super) fn unnamed_id(group: &str, subject: &str) -> SessionId {
    hash_id("unnamed", group, subject)
}

fn hash_id(kind: &str, group: &str, name: &str) -> SessionId {
    // Different lists of texts have different JSON.
    let digest_bytes = digest(serde_json::json!([kind, group, name]).to_string().as_bytes());
    let mut id = SessionId::default();
    id.copy_from_slice(&digest_bytes[..16]);
    id
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use base64::Engine;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;

    use super::*;

    const WHOLE: &str =
        r#""iss":"https://login.test","aud":"shop","iat":1700000000,"exp":1700000120,"jti":"1""#;
    const EVENTS: &str = r#""events":{"http://schemas.openid.net/event/backchannel-logout":{}}"#;

    fn read(header: &str, claims: &str) -> Result<Vec<EndedSessions>, Refusal> {
        let text = [header, claims].map(|part| URL_SAFE_NO_PAD.encode(part)).join(".") + ".c2ln";
        LogoutToken::parse(text.as_bytes()).map(|token| token.ended("shop").collect())
    }

    #[test]
    fn a_session_or_a_user_is_ended() {
        let session = EndedSessions { id: session_id("shop", "s"), until_login_at: u64::MAX };
        let user = EndedSessions { id: user_id("shop", "jo"), until_login_at: 1_700_000_000 };
        let unnamed = EndedSessions { id: unnamed_id("shop", "jo"), ..user };
        for (names, ended) in [
            (r#""sid":"s""#, vec![session]),
            (r#""sid":"s","sub":"jo""#, vec![session, unnamed]),
            (r#""sub":"jo""#, vec![user]),
            (r#""sid":"","sub":"jo""#, vec![user]),
        ] {
            for kind in
                ["", r#","typ":"JWT""#, r#","typ":"logout+jwt""#, r#","typ":"application/logout+jwt""#]
            {
                let header = format!(r#"{{"alg":"ES256"{kind}}}"#);
                let found = read(&header, &format!("{{{WHOLE},{EVENTS},{names}}}"));
                assert_eq!(found, Ok(ended.clone()), "{names} {kind}");
            }
        }
        assert_ne!(session_id("a", "b"), session_id("a\",\"b", ""));
        assert_ne!(session_id("a", "b"), user_id("a", "b"));
    }

    #[test]
    fn a_future_token_is_not_valid_yet() {
        let text = [r#"{"alg":"ES256"}"#, &format!("{{{WHOLE},{EVENTS},\"sub\":\"jo\"}}")];
        let text = text.map(|part| URL_SAFE_NO_PAD.encode(part)).join(".") + ".c2ln";
        let token = LogoutToken::parse(text.as_bytes()).unwrap();
        let check = |now| {
            let (skew, now) = (Duration::from_secs(30), Duration::from_secs(now));
            token.check(&Expected { issuer: "https://login.test", audiences: &["shop"], skew, now })
        };
        assert_eq!(check(1_699_999_969), Err(Refusal::NotYetValid));
        assert_eq!((check(1_699_999_970), check(1_700_000_149)), (Ok(()), Ok(())));
        assert_eq!(check(1_700_000_150), Err(Refusal::Expired));
    }

    #[test]
    fn no_other_token_ends_a_session() {
        let header = r#"{"alg":"ES256"}"#;
        for claims in [
            format!(r#"{{{WHOLE},"sub":"jo"}}"#),
            format!(r#"{{{WHOLE},{EVENTS}}}"#),
            format!(r#"{{{WHOLE},{EVENTS},"sub":""}}"#),
            format!(r#"{{{WHOLE},{EVENTS},"sub":7}}"#),
            format!(r#"{{{WHOLE},{EVENTS},"sub":"jo","nonce":"n"}}"#),
            format!(r#"{{{WHOLE},{EVENTS},"sub":"jo","nonce":null}}"#),
            format!(r#"{{{WHOLE},"sub":"jo","events":{{}}}}"#),
            format!(
                r#"{{{WHOLE},"sub":"jo","events":{{"http://schemas.openid.net/event/backchannel-logout":1}}}}"#
            ),
            format!(
                r#"{{{WHOLE},"sub":"jo","events":"http://schemas.openid.net/event/backchannel-logout"}}"#
            ),
            format!(r#"{{{WHOLE},"sub":"jo","events":{{"http://schemas.openid.net/event/other":{{}}}}}}"#),
        ] {
            assert_eq!(read(header, &claims), Err(Refusal::Unsupported), "{claims}");
        }
        for lacking in [r#""jti":"1""#, r#""iat":1700000000"#] {
            let without = format!(r#"{{"iss":"i","sub":"jo",{lacking},{EVENTS}}}"#);
            assert_eq!(read(header, &without), Err(Refusal::Malformed));
        }
        let claims = format!("{{{WHOLE},{EVENTS},\"sub\":\"jo\"}}");
        for kind in ["at+jwt", "dpop+jwt", "secevent+jwt", "logout+jwt+jwt"] {
            assert_eq!(
                read(&format!(r#"{{"alg":"ES256","typ":"{kind}"}}"#), &claims),
                Err(Refusal::Unsupported)
            );
        }
        assert_eq!(read(r#"{"alg":"none"}"#, &claims), Err(Refusal::Algorithm));
        assert_eq!(read(r#"{"alg":"HS256"}"#, &claims), Err(Refusal::Algorithm));
    }
}
