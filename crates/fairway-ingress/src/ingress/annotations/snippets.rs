//! Pieces of nginx configuration: `*-snippet`. None is ever interpreted.

use crate::ingress::annotations::family::{Family, Known, guards, offers};

/// The family.
pub(crate) const FAMILY: Family = Family::unsupported(ANNOTATIONS);

const ANNOTATIONS: &[Known] = &[
    guards(
        "configuration-snippet",
        "it is nginx configuration, which is never interpreted, and may restrict who is let in",
        &[],
    ),
    guards(
        "server-snippet",
        "it is nginx configuration, which is never interpreted, and may restrict who is let in",
        &[],
    ),
    offers("stream-snippet", "it is nginx configuration, which is never interpreted", &[]),
];
