//! What becomes of the fields of an answer: `proxy-cookie-*`, `proxy-redirect-*`. None works yet.

use crate::ingress::annotations::family::{Family, Known, offers};

/// The family.
pub(crate) const FAMILY: Family = Family::unsupported(ANNOTATIONS);

const ANNOTATIONS: &[Known] = &[
    offers("proxy-cookie-domain", "the Domain of the backend's cookies stays as it is", &["off"]),
    offers("proxy-cookie-path", "the Path of the backend's cookies stays as it is", &["off"]),
    offers("proxy-redirect-from", "the backend's Location and Refresh headers stay as they are", &["off"]),
    offers("proxy-redirect-to", "the backend's Location and Refresh headers stay as they are", &["off"]),
];
