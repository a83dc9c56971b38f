//! How the bodies of requests to one backend, and of its responses, are handled.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::buffering::Buffering;
use crate::compression::Compression;
use crate::default::is_default;

/// How bodies are handled that a backend gets and sends. What it says comes in addition to what the rule says.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct BodyHandling {
    /// The largest request body in bytes; larger is answered 413. The smaller of this and the rule's `max_body` counts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_request: Option<u64>,
    /// How responses are compressed, in place of what the rule says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compression: Option<Arc<Compression>>,
    /// Which bodies are held before they go on, in place of what the rule says.
    #[serde(skip_serializing_if = "is_default")]
    pub buffering: Buffering,
}

impl BodyHandling {
    /// As shares of rules keep it: nothing, where all is as usual.
    #[must_use]
    pub fn kept(self) -> Option<Arc<Self>> {
        (self != Self::default()).then(|| Arc::new(self))
    }
}

/// The smaller of two limits, of those that there are.
#[must_use]
pub fn smaller_limit(one: Option<u64>, other: Option<u64>) -> Option<u64> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::buffering::BodyBuffer;

    #[test]
    fn handling_is_read_as_it_was_written_and_nothing_is_kept_of_what_is_as_usual() {
        assert_eq!(serde_json::to_string(&BodyHandling::default()).unwrap(), "{}");
        assert_eq!(BodyHandling::default().kept(), None);
        let compression = Some(Arc::new(Compression { codings: Vec::new() }));
        let requests = Some(BodyBuffer { memory: 1, disk: 2 });
        let buffering = Buffering { requests, responses: None };
        let bodies = BodyHandling { max_request: Some(7), compression, buffering };
        let json = serde_json::to_string(&bodies).unwrap();
        assert_eq!(serde_json::from_str::<BodyHandling>(&json).unwrap(), bodies);
    }

    #[test]
    fn the_smaller_limit_counts() {
        for (one, other, expected) in [
            (None, None, None),
            (Some(1), None, Some(1)),
            (None, Some(2), Some(2)),
            (Some(3), Some(2), Some(2)),
        ] {
            assert_eq!(smaller_limit(one, other), expected);
        }
    }
}
