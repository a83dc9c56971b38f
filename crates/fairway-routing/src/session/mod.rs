//! Which endpoint of a backend a request belongs to: by a cookie, or by a hash of what requests have in common. Pure: a request's head
//! in, a place among the endpoints' keys out. Every worker and replica comes to the same endpoint.

mod cookies;
mod rendezvous;
mod token;

pub use cookies::{cookie_of, parameter_of};
pub use rendezvous::{Asked, Belongs, Session, keys, set_cookie, weight};
pub use token::{Issued, Times, Token};
