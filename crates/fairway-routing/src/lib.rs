//! Compiles a [`fairway_model::Config`] into an immutable [`Snapshot`] and looks up requests in it.
//!
//! The modules in the order of a lookup: `request`; `hosts`, found by `names`; `host` with its `few_paths`, its path
//! `tree` or its `ordered_candidates` candidates; their `conditions`; the winning `rule` with its `targets` and `steps`.
//! [`compile()`] builds all of it and shares whatever did not change with the previous snapshot. [`oracle`] is the
//! slow, obvious matcher that defines the correct result, and [`explain`] presents it to users. [`impact`] evaluates a
//! change against requests that were served. [`session`] decides which endpoint of a backend a request has affinity to.
//!
//! `ports` assigns listeners to TCP and UDP ports and finds the one for a TLS client. `unsupported` lists what the model
//! can express and is not supported yet: it is refused, or closed if it protects something, and a problem names it. A
//! rule that cannot be compiled affects no other rule.
//!
//! This crate is pure: no I/O, no clock, no threads. A lookup allocates nothing.

mod authorization;
mod candidate;
mod client_limits;
mod compile;
mod conditional;
mod conditions;
mod cors;
pub mod explain;
mod few_paths;
mod guards;
mod hash;
mod host;
mod hosts;
pub mod impact;
mod matched;
mod names;
#[doc(hidden)]
pub mod oracle;
mod ordered_candidates;
mod ports;
mod problem;
mod query;
mod rare_list;
mod request;
mod rewrite;
mod rule;
pub mod session;
mod sharing;
mod slots;
mod snapshot;
mod steps;
mod streams;
mod table;
mod targets;
mod tested_values;
mod tree;
mod unsupported;

pub use authorization::{AuthorizationCheck, Caller, GeoLookup};
pub use client_limits::ClientLimits;
pub use compile::{Compiled, compile};
pub use conditional::{
    CapturedLocation, CompiledCondition, CompiledConditionalHeaders, CompiledDirectResponse,
    unescape_redirect,
};
pub use cors::CompiledCors;
pub use explain::{Explanation, HostStep, HostVerdict, MatchStep, MatchVerdict};
pub use guards::LOGIN_COOKIE_PREFIX;
pub use host::CompiledHost;
pub use matched::Matched;
pub use ports::{ByName, Port, PortKey, PortListener};
pub use problem::Problem;
pub use request::{Fields, Request};
pub use rewrite::CompiledRewrite;
pub use rule::{
    AnyOfCheck, CompiledRule, ErrorPagesStep, ExtensionStep, ExternalAuthCheck, GrpcAuthCheck, GuardStep,
    KeySource, LoginCheck, MirrorStep, RuleId, Steps, Targets, TokenCheck,
};
pub use slots::BackendSlot;
pub use snapshot::Snapshot;
pub use steps::{
    CompiledCertificate, CompiledDeny, CompiledRedirect, FieldEdits, PolicyId, RequestStep, ResponseStep,
};
pub use streams::CompiledStream;
pub use table::TableId;
pub use targets::{Shares, Weighted};
pub use tested_values::{BlockedClientsCheck, ValueTests};
