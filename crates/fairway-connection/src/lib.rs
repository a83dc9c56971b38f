//! Connections to clients and to endpoints: the two sides of an exchange, who serves them in each version of HTTP, and the pools
//! that keep those to endpoints.
//!
//! [`sides`] is what an exchange knows: [`Downstream`](sides::Downstream) towards its client, [`Upstream`](sides::Upstream)
//! towards an endpoint, and [`Hop`](sides::Hop), which a pool keeps. [`h1`] serves both sides over a connection of HTTP/1,
//! [`h2`] over streams of HTTP/2; a [`hop`] to an endpoint is one of the two. [`h3`] serves clients over streams of HTTP/3. [`upstream`] has the endpoints of backends, their
//! health and their pools.
//!
//! [`takebacks`] counts the requests that clients take back.
//!
//! Only `h1`, `h2` and `h3` import the codecs, and nothing here knows a route: limits and times are passed in. What a head
//! says about its own hop is read by the hop and taken out of the head.

pub mod h1;
pub mod h2;
pub mod h3;
pub mod hop;
mod outgoing;
pub mod sides;
pub mod takebacks;
mod trailers;
pub mod upstream;
pub mod websocket;
