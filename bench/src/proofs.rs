//! The proofs under churn, change and floods as commands: their arguments, their progress, their tables and their JSON. The
//! proofs themselves are `fairway_testkit::proof`; tests run the same ones short.

mod arguments;
mod check;
mod compare;
mod floods;
mod outcome;
mod routes;
mod run;
mod spread;

pub(crate) use arguments::{
    ChangesArguments, CheckArguments, ChurnArguments, CompareArguments, KillArguments, RoutesArguments,
    ScaleArguments, SpreadArguments,
};
pub(crate) use check::check;
pub(crate) use compare::compare;
pub(crate) use floods::{FloodsArguments, floods};
pub(crate) use routes::routes;
pub(crate) use run::{changes, churn, kill, scale};
pub(crate) use spread::spread;
