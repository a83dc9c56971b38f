//! Compiles a [`fairway_model::Config`] into an immutable [`Snapshot`] and looks requests up in it.
//!
//! The modules in the order of a lookup: `request` in, `hosts` by their `names`, `host` with its `few_paths`, its path `tree` or
//! its `listed` candidates, their `conditions`, the winning `rule` with its `targets` and its `steps`. [`compile()`] builds
//! all of it and shares with the previous snapshot whatever did not change; [`oracle`] is the slow, obvious matcher
//! that says what the right answer is, and [`explain`] tells it to people. [`impact`] says what a change means for requests that were
//! served. [`session`] says which endpoint of a backend a request
//! belongs to.
//!
//! `ports` plans which listeners a port of TCP or UDP carries and which of them a TLS client gets. `unserved` lists what the model
//! can say and nothing serves yet: it is refused, or closed where it protects, with a problem that names it. A rule that cannot be
//! compiled affects no other rule.
//!
//! This crate is pure: no I/O, no clock, no threads. A lookup allocates nothing.

mod authorization;
mod candidate;
mod chosen;
mod client_limits;
mod compile;
mod conditions;
mod cors;
pub mod explain;
mod few_paths;
mod guards;
mod hash;
mod host;
mod hosts;
pub mod impact;
mod listed;
mod matched;
mod names;
#[doc(hidden)]
pub mod oracle;
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
mod unserved;

pub use authorization::{AuthorizationCheck, Caller, Located};
pub use chosen::{CompiledChosen, CompiledCondition, CompiledRespond, Rewritten, unescape_redirect};
pub use client_limits::ClientLimits;
pub use compile::{Compiled, compile};
pub use cors::CorsAnswer;
pub use explain::{Explanation, HostStep, HostVerdict, MatchStep, MatchVerdict};
pub use guards::LOGIN_COOKIE_PREFIX;
pub use host::CompiledHost;
pub use matched::Matched;
pub use ports::{ByName, Carried, Port, PortKey};
pub use problem::Problem;
pub use request::{Fields, Request};
pub use rewrite::CompiledRewrite;
pub use rule::{
    AnyOf, Asking, AskingGrpc, CompiledRule, Copying, Extending, GuardStep, KeySource, LoginCheck, Replacing,
    RuleId, Steps, Targets, TokenCheck,
};
pub use slots::BackendSlot;
pub use snapshot::Snapshot;
pub use steps::{
    AnswerStep, CompiledCertificate, CompiledDeny, CompiledRedirect, FieldEdits, PolicyId, RequestStep,
};
pub use streams::CompiledStream;
pub use table::TableId;
pub use targets::{Shares, Weighted};
pub use tested_values::{BlockedBy, ValueTests};
