//! Connections to clients and endpoints: the two sides of an exchange, their implementation in each version of HTTP,
//! and the endpoint pools.
//!
//! [`sides`] has the traits that an exchange uses: [`Downstream`](sides::Downstream) for its client,
//! [`Upstream`](sides::Upstream) for an endpoint, and [`Hop`](sides::Hop) for pooled connections. [`h1`] implements
//! both sides over an HTTP/1 connection, [`h2`] over HTTP/2 streams, [`h3`] the client's side over HTTP/3 streams;
//! [`hop`] is an endpoint connection in either protocol. [`upstream`] has the endpoints of backends, their health and
//! their pools.
//!
//! [`cancellations`] counts the requests that clients cancel.
//!
//! Only `h1`, `h2` and `h3` import the codecs, and nothing here knows routes: limits and timeouts are passed in.
//! Hop-by-hop fields are read and removed by the hop.

pub mod cancellations;
pub mod h1;
pub mod h2;
pub mod h3;
pub mod hop;
mod outgoing;
pub mod sides;
mod trailers;
pub mod upstream;
pub mod websocket;
