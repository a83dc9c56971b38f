//! The impact of a change on a request, and its labels.

/// The impact of a change on a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is treated the same way.
    Same,
    /// It takes the same route, with other settings.
    Settings(OtherSettings),
    /// It is treated differently.
    Otherwise(Difference),
    /// It depends on something unknown.
    Undecided(Unknown),
}

/// How a request is treated differently.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The kind of difference.
    pub kind: DifferenceKind,
    /// What happened to it before, in a few words.
    pub before: String,
    /// What would happen to it after.
    pub after: String,
}

/// The kinds of differences. The first one that applies counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DifferenceKind {
    /// No listener receives it any more, or its TLS connection is passed through.
    Listener,
    /// No route serves it any more.
    NoRoute,
    /// A route serves it, which had none before, or was refused or redirected.
    Served,
    /// It is refused, or Fairway responds itself.
    Refused,
    /// It is redirected, or redirected elsewhere.
    Redirect,
    /// Another Service gets it.
    Backend,
    /// The Service is reached by another protocol.
    Protocol,
    /// The Service receives another path.
    Path,
    /// The Service receives another host.
    Host,
    /// Other headers are set or removed.
    Headers,
}

/// Which settings differ, although the request takes the same route. The first one that applies counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum OtherSettings {
    /// Another object serves it.
    Route,
    /// Timeouts, sizes, retries.
    Policy,
    /// How endpoints are selected and used.
    Backend,
    /// Limits, CORS headers, mirrors, compression, buffering, logs, traces.
    Filters,
}

/// The unknown part of a request that decides.
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
    /// Whether it has the required credentials.
    Authentication,
    /// What an extension service does with it.
    Extension,
    /// Which of several backends gets it.
    Weights,
    /// The listener that received it.
    Listener,
    /// The rest of its host or path, which was too long to be recorded, or has characters that are not shown.
    Text,
    /// A redacted value of the served configuration.
    Hidden,
    /// An object that the rule refers to and that was not read.
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
