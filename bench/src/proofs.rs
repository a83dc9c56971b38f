//! The proofs under churn and change as commands: their arguments, their progress, their tables and their JSON. The
//! proofs themselves are `fairway_testkit::proof`; tests run the same ones short.

mod arguments;
mod outcome;
mod run;

pub(crate) use arguments::{ChangesArguments, ChurnArguments, KillArguments, ScaleArguments};
pub(crate) use run::{changes, churn, kill, scale};
