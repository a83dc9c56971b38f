//! The code flow of OpenID Connect Core 1.0 §3.1, with PKCE (RFC 7636), from the side of the relying party: what it asks for, what it
//! makes of the responses, and what it keeps of them in cookies. Pure: requests are texts that somebody else sends, and the time is
//! passed in.
//!
//! [`Provider`] is what the provider says of itself. A [`LoginAttempt`] begins a login and knows its secrets; [`Callback`] is the request
//! with which the browser comes back. [`Tokens`] are what the provider gives for the code, and [`Session`] is what is kept of them; a
//! [`LogoutToken`] ends some.

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
