//! Session affinity: which endpoint of a backend gets a request, by a cookie or by a hash of request attributes. Pure:
//! a request head in, an index into the endpoints' keys out. Every worker and replica gets the same result.

mod cookies;
mod rendezvous;
mod token;

pub use cookies::{cookie_of, parameter_of};
pub use rendezvous::{Affinity, Session, SessionRequest, keys, set_cookie, weight};
pub use token::{IssuedToken, SessionTimes, Token};
