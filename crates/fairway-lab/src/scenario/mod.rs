//! Scenarios: the published protocols, each a file of parameters (`scenarios/*.toml`) and a module that carries it out.
//!
//! A run has two parts. [`prepare`] fetches and packs what is needed and brings a testbed up; [`inside`] of it the
//! scenarios go on with one contender after the other, each alone on its [`stage`]. What is found goes into a
//! [`Run`](fairway_lab_results::Run), and the results are written after every scenario.

pub mod arguments;
mod capacity;
mod catalogue;
pub mod command;
mod comparison;
mod definition;
mod dynamic;
mod foreign;
mod handover;
mod inside;
mod metering;
mod prepare;
mod probe;
mod progress;
mod propagation;
mod receipts;
mod room;
mod site;
mod spikes;
mod stage;
mod timeline;
mod trial;
