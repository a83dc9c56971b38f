//! What a change means for a request, and the words for it.

/// What a change means for a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is treated in the same way.
    Same,
    /// It goes the same way, under other settings.
    Settings(OtherSettings),
    /// It is treated otherwise.
    Otherwise(Difference),
    /// That depends on something that is not known.
    Undecided(Unknown),
}

/// How a request is treated otherwise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// In what.
    pub kind: DifferenceKind,
    /// What became of it, in a few words.
    pub before: String,
    /// What would become of it.
    pub after: String,
}

/// In what a treatment differs. The first that applies counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DifferenceKind {
    /// No listener takes it any more, or its TLS is passed through.
    Listener,
    /// No route serves it any more.
    NoRoute,
    /// A route serves it that had none, or that was refused or redirected.
    Served,
    /// It is refused, or Fairway answers it.
    Refused,
    /// It is redirected, or to somewhere else.
    Redirect,
    /// Another Service gets it.
    Backend,
    /// The Service is spoken to in another protocol.
    Protocol,
    /// The Service sees another path.
    Path,
    /// The Service sees another host.
    Host,
    /// Other headers are set or removed.
    Headers,
}

/// Which settings are others, although the request goes the same way. The first that applies counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum OtherSettings {
    /// Another object serves it.
    Route,
    /// Timeouts, sizes, retries.
    Policy,
    /// How endpoints are chosen and used.
    Backend,
    /// Limits, cross-origin headers, copies, compression, buffering, logs, traces.
    Filters,
}

/// What is not known of a request, and decides about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Unknown {
    /// Its headers.
    Headers,
    /// Its query.
    Query,
    /// Its cookies.
    Cookies,
    /// The address of its client.
    ClientAddress,
    /// The certificate of its client.
    ClientCertificate,
    /// Whether it has the credentials that are asked for.
    Authentication,
    /// What a service makes of it that sees it.
    Extension,
    /// Which of several backends gets it.
    Weights,
    /// The listener that it came to.
    Listener,
    /// The rest of its host or path, which was too long to be kept, or has characters that are not shown.
    Text,
    /// A value that the served configuration is shown without.
    Hidden,
    /// An object that the rule refers to, and that was not read.
    Object,
}

impl DifferenceKind {
    /// Its name in JSON.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Self::Listener => "listener",
            Self::NoRoute => "no_route",
            Self::Served => "served",
            Self::Refused => "refused",
            Self::Redirect => "redirect",
            Self::Backend => "backend",
            Self::Protocol => "protocol",
            Self::Path => "path",
            Self::Host => "host",
            Self::Headers => "headers",
        }
    }
}

impl OtherSettings {
    /// Its name in JSON.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Self::Route => "route",
            Self::Policy => "policy",
            Self::Backend => "backend",
            Self::Filters => "filters",
        }
    }
}

impl Unknown {
    /// Its name in JSON.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Self::Headers => "headers",
            Self::Query => "query",
            Self::Cookies => "cookies",
            Self::ClientAddress => "client_address",
            Self::ClientCertificate => "client_certificate",
            Self::Authentication => "authentication",
            Self::Extension => "extension",
            Self::Weights => "weights",
            Self::Listener => "listener",
            Self::Text => "text",
            Self::Hidden => "hidden",
            Self::Object => "object",
        }
    }
}
