//! The request with which a browser returns from the provider (RFC 6749 §4.1.2).

use std::time::Duration;

use super::attempt::LoginAttempt;

/// Maximum length of the query, in bytes.
const MAX_QUERY_BYTES: usize = 8 << 10;
/// Maximum length of a code, in bytes; twice that of large providers.
const MAX_CODE_BYTES: usize = 4 << 10;

/// The authorization response, delivered by the browser. Anyone can forge it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Callback {
    /// The state of the attempt that it claims to belong to.
    pub state: String,
    /// The claimed issuer (RFC 9207).
    issuer: Option<String>,
    response: AuthorizationResponse,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum AuthorizationResponse {
    Code(String),
    Error(String),
}

/// Why a callback does not complete a login.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallbackRefusal {
    /// It is not an authorization response, or has duplicate parameters.
    Malformed,
    /// No attempt of this browser has its state, or the attempt has expired.
    UnknownState,
    /// It is from another issuer than the one asked, or names none although the issuer announces that it does.
    OtherIssuer,
    /// The provider refused the login.
    Denied,
    /// The provider failed, or its client is misconfigured.
    Failed,
}

impl Callback {
    /// Parses a query.
    ///
    /// # Errors
    /// [`CallbackRefusal::Malformed`]
    pub fn parse(query: &[u8]) -> Result<Self, CallbackRefusal> {
        if query.len() > MAX_QUERY_BYTES {
            return Err(CallbackRefusal::Malformed);
        }
        let [mut state, mut issuer, mut code, mut error] = [const { None }; 4];
        for (name, value) in form_urlencoded::parse(query) {
            let parameter = match &*name {
                "state" => &mut state,
                "iss" => &mut issuer,
                "code" => &mut code,
                "error" => &mut error,
                _ => continue,
            };
            // "Request and response parameters MUST NOT be included more than once" (RFC 6749 §3.1).
            if parameter.replace(value.into_owned()).is_some() {
                return Err(CallbackRefusal::Malformed);
            }
        }
        let response = match (code, error) {
            (Some(code), None) if is_code(&code) => AuthorizationResponse::Code(code),
            (None, Some(error)) => AuthorizationResponse::Error(error),
            _ => return Err(CallbackRefusal::Malformed),
        };
        let state = state.ok_or(CallbackRefusal::Malformed)?;
        Ok(Self { state, issuer, response })
    }

    /// The code, if the callback is the response of `issuer` to `attempt`.
    ///
    /// # Errors
    /// It is not, or contains no code.
    pub fn code(
        &self,
        attempt: &LoginAttempt,
        issuer: &str,
        names_issuer: bool,
        now: Duration,
    ) -> Result<&str, CallbackRefusal> {
        if !attempt.has_state(&self.state) || attempt.is_over(now) {
            return Err(CallbackRefusal::UnknownState);
        }
        // RFC 9207 §2.4.
        match &self.issuer {
            Some(named) if named == issuer => {}
            None if !names_issuer => {}
            _ => return Err(CallbackRefusal::OtherIssuer),
        }
        match &self.response {
            AuthorizationResponse::Code(code) => Ok(code),
            AuthorizationResponse::Error(error) => Err(match &**error {
                "access_denied"
                | "login_required"
                | "consent_required"
                | "interaction_required"
                | "account_selection_required" => CallbackRefusal::Denied,
                _ => CallbackRefusal::Failed,
            }),
        }
    }
}

/// RFC 6749 Appendix A.11.
fn is_code(code: &str) -> bool {
    !code.is_empty() && code.len() <= MAX_CODE_BYTES && code.bytes().all(|byte| matches!(byte, b' '..=b'~'))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Duration = Duration::from_secs(1_800_000_000);
    const ISSUER: &str = "https://login.example.com";

    fn attempt() -> (LoginAttempt, String) {
        let attempt = LoginAttempt::begin("/".to_owned(), NOW).unwrap();
        let fields: serde_json::Value = serde_json::from_slice(&attempt.to_bytes()).unwrap();
        (attempt, fields["state"].as_str().unwrap().to_owned())
    }

    fn handle_callback(query: &str, names_issuer: bool, now: Duration) -> Result<String, CallbackRefusal> {
        let (attempt, state) = attempt();
        let query = query.replace("STATE", &state);
        let callback = Callback::parse(query.as_bytes())?;
        callback.code(&attempt, ISSUER, names_issuer, now).map(str::to_owned)
    }

    #[test]
    fn a_code_is_accepted_only_from_the_requested_provider() {
        let code = Ok("a b+c".to_owned());
        assert_eq!(handle_callback("code=a+b%2Bc&state=STATE", false, NOW), code);
        assert_eq!(
            handle_callback("session_state=x&code=a+b%2Bc&state=STATE&scope=openid", false, NOW),
            code
        );
        for names_issuer in [false, true] {
            let query = "code=a+b%2Bc&iss=https%3A%2F%2Flogin.example.com&state=STATE";
            assert_eq!(handle_callback(query, names_issuer, NOW), code);
        }
    }

    #[test]
    fn other_callbacks_are_refused() {
        use CallbackRefusal::{Denied, Failed, Malformed, OtherIssuer, UnknownState};
        let long = format!("code={}&state=STATE", "a".repeat(MAX_CODE_BYTES + 1));
        for (query, why) in [
            ("", Malformed),
            ("code=a", Malformed),
            ("state=STATE", Malformed),
            ("code=&state=STATE", Malformed),
            ("code=a&state=STATE&state=STATE", Malformed),
            ("code=a&code=b&state=STATE", Malformed),
            ("code=a&error=access_denied&state=STATE", Malformed),
            ("code=a%0d%0ab&state=STATE", Malformed),
            ("code=%c3%a4&state=STATE", Malformed),
            (&long, Malformed),
            ("code=a&state=", UnknownState),
            ("code=a&state=AAAAAAAAAAAAAAAAAAAAAA", UnknownState),
            ("code=a&state=STATEa", UnknownState),
            ("code=a&state=STATE&iss=https%3A%2F%2Fevil.example", OtherIssuer),
            ("code=a&state=STATE&iss=", OtherIssuer),
            ("error=access_denied&state=STATE&iss=https%3A%2F%2Fevil.example", OtherIssuer),
            ("error=access_denied&state=AAAAAAAAAAAAAAAAAAAAAA", UnknownState),
            ("error=access_denied&state=STATE", Denied),
            ("error=login_required&state=STATE", Denied),
            ("error=server_error&state=STATE", Failed),
            ("error=&state=STATE", Failed),
        ] {
            assert_eq!(handle_callback(query, false, NOW), Err(why), "{query}");
        }
        assert_eq!(handle_callback("code=a&state=STATE", true, NOW), Err(OtherIssuer), "it says who it is");
        let late = NOW + super::super::MAX_ATTEMPT_AGE + Duration::from_secs(1);
        assert_eq!(handle_callback("code=a&state=STATE", false, late), Err(UnknownState));
    }
}
