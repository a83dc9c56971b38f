//! What is known of a stream from behind the proxy: what backends say of its requests, which came twice and which never.

use serde::{Deserialize, Serialize};

/// What is known of a measure from behind the proxy, beside its cost. In JSON these are fields of the measure.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Backstage {
    /// Why there is no [`Measure::cost`](super::Measure::cost), in a sentence, where one was to be read.
    #[serde(default)]
    pub uncosted: Option<String>,
    /// What backends say of the requests; none where these had no ids, and in files of older versions.
    #[serde(default)]
    pub deliveries: Option<Deliveries>,
    /// How far the proxy's CPU was from the others, where blocks are interleaved and it has one of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub distance: Option<Distance>,
}

/// Where two CPUs are: what the kernel spends on a request over loopback depends on it more than on the proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Distance {
    /// On one physical core, or everything is pinned to one CPU.
    OneCore,
    /// On two.
    TwoCores,
    /// Nothing is pinned, or no probe came through.
    Unknown,
}

/// What backends say of the requests of a measure.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "state")]
pub enum Deliveries {
    /// Every backend told which requests it was given.
    Counted(Delivered),
    /// It is not known.
    Uncounted {
        /// Why not.
        reason: String,
    },
}

/// Requests by what the generator and what the backends know of them. Each carries an id of its own; those that failed
/// before they were written, because there was no connection, have none and are not among them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Delivered {
    /// Requests that were written with an id and have ended.
    pub sent: u64,
    /// Those of them that were POST; the others were GET.
    pub posts: u64,
    /// Those that at least one backend was given.
    pub seen: u64,
    /// GETs that backends were given more than once, e.g. because a proxy tried another endpoint. That is allowed (RFC 9110
    /// section 9.2.2) and costs a backend's work.
    pub repeated_gets: u64,
    /// POSTs that backends were given more than once. A proxy must not do that (same section): what the request does was
    /// done twice. Where the client saw a good answer, the request counts in the class `duplicated` of
    /// [`Load::errors`](super::Load::errors).
    pub repeated_posts: u64,
    /// Requests with a good answer that no backend was given. If these are not 0, somebody else answered, or backends could
    /// not tell all, and the other figures are too low.
    pub answered_unseen: u64,
    /// Requests that failed for the client although a backend was given them: the answer was lost, what was done is done.
    pub failed_seen: u64,
    /// Requests that failed and that no backend was given: lost on the way, safe to send again.
    pub failed_unseen: u64,
    /// The first that came more than once, e.g. `POST 5c1f-0-2a, 2 times, answered`.
    pub examples: Vec<String>,
}

impl Delivered {
    /// Together with those of another measure.
    #[must_use]
    pub fn and(mut self, other: &Self) -> Self {
        self.sent += other.sent;
        self.posts += other.posts;
        self.seen += other.seen;
        self.repeated_gets += other.repeated_gets;
        self.repeated_posts += other.repeated_posts;
        self.answered_unseen += other.answered_unseen;
        self.failed_seen += other.failed_seen;
        self.failed_unseen += other.failed_unseen;
        self.examples.extend(other.examples.iter().cloned());
        self
    }
}
