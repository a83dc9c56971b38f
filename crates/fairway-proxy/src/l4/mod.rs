//! Connections and datagrams that are forwarded as they come, whatever is spoken on them.
//!
//! * *Connections*: [`hello`] finds the name that a TLS client asks for before anybody answers it, [`race`] is for connects that
//!   are late, and [`pump`] copies bytes both ways.
//! * *Datagrams*: [`datagrams`] receives them and sends them on, [`sessions`] knows which belong together, and [`bounds`] how many
//!   sessions there may be.
//!
//! Any split of a ClientHello gives the same name, and what leaves open which name is meant gives none. What waits for a slow side is
//! bounded, a datagram never waits, and nothing is sent to an address from which nothing came.
//!
//! It knows no route, endpoint or configuration; who is connected with whom, and for how long, is decided above.

pub(crate) mod bounds;
pub(crate) mod datagrams;
pub(crate) mod hello;
pub(crate) mod pump;
pub(crate) mod race;
pub(crate) mod sessions;
