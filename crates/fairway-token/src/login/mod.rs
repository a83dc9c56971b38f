//! The code flow of OpenID Connect Core 1.0 §3.1 with PKCE (RFC 7636), for the relying party: requests, responses,
//! and state in cookies. Pure: the caller sends requests and passes in the time.
//!
//! [`Provider`] is the provider's metadata. A [`LoginAttempt`] starts a login and holds its secrets; [`Callback`] is
//! the request with which the browser returns. [`Tokens`] are the provider's response to the code, and [`Session`] is
//! the stored part; a [`LogoutToken`] ends sessions.

mod attempt;
mod callback;
mod cookies;
mod exchange;
mod logout;
mod provider;
mod session;

pub use attempt::{AuthorizationRequest, LoginAttempt, MAX_ATTEMPT_AGE};
pub use callback::{Callback, CallbackRefusal};
pub use cookies::{
    CookieParts, MAX_COOKIE_PARTS, cookie_lines, cookie_names, find_cookie, removal_line, removal_lines,
    without_cookies,
};
pub use exchange::{ClientCredentials, InvalidTokens, TokenRequest, Tokens, is_refused_grant};
pub use logout::{EndedSessions, LogoutToken, SessionId};
pub use provider::{Endpoint, MAX_METADATA_BYTES, Provider, UnusableProvider};
pub use session::{Session, TooLarge};
