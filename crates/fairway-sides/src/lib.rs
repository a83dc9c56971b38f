//! The two sides of an exchange, and who serves them in each version of HTTP.
//!
//! [`sides`] is what an exchange knows: [`Downstream`](sides::Downstream) towards its client, [`Upstream`](sides::Upstream)
//! towards an endpoint, and [`Hop`](sides::Hop), which a pool keeps. [`h1`] serves both sides over a connection of HTTP/1,
//! [`h2`] over streams of HTTP/2; a [`hop`] to an endpoint is one of the two.
//!
//! [`takebacks`] counts the requests that clients take back.
//!
//! Only `h1` and `h2` import the codecs, and nothing here knows routes, endpoints or the configuration: limits and
//! times are passed in.

pub mod h1;
pub mod h2;
pub mod hop;
pub mod sides;
pub mod takebacks;
pub mod websocket;
