//! Body limits, compression and buffering of one backend.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::buffering::Buffering;
use crate::compression::Compression;
use crate::default::is_default;

/// How request and response bodies of a backend are handled, in addition to the settings of the rule.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct BodyHandling {
    /// Maximum request body in bytes; larger requests get 413. The smaller of this and the rule's `max_body` applies.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_request: Option<u64>,
    /// Response compression; replaces that of the rule.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compression: Option<Arc<Compression>>,
    /// Body buffering; replaces that of the rule.
    #[serde(skip_serializing_if = "is_default")]
    pub buffering: Buffering,
}

impl BodyHandling {
    /// `None` if everything has its default, as the shares of a rule store it.
    #[must_use]
    pub fn if_not_empty(self) -> Option<Arc<Self>> {
        (self != Self::default()).then(|| Arc::new(self))
    }
}

/// The smaller of two optional limits.
#[must_use]
pub fn smaller_limit(left: Option<u64>, right: Option<u64>) -> Option<u64> {
    match (left, right) {
        (Some(one), Some(right)) => Some(one.min(right)),
        (one, right) => one.or(right),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::buffering::BodyBuffer;

    #[test]
    fn body_handling_round_trips_and_omits_defaults() {
        assert_eq!(serde_json::to_string(&BodyHandling::default()).unwrap(), "{}");
        assert_eq!(BodyHandling::default().if_not_empty(), None);
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
