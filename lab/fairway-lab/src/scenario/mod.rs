//! Scenarios: the published protocols, each a file of parameters (`scenarios/*.toml`) and a module that carries it out.
//!
//! A run has two parts. [`prepare`] fetches and packs what is needed and brings a testbed up; a [`session`] inside of it goes
//! through the scenarios with one contender after the other, each alone ([`running_peer`]), several times where there are
//! [`rounds`]. What is found goes into a [`Run`](fairway_lab_measure::results::Run), and the results are written after every scenario,
//! so that an interrupted run keeps what it found.

pub mod arguments;
mod catalogue;
pub mod command;
mod comparison;
mod definition;
mod disk_reserve;
mod dynamic;
mod gateway;
mod handover;
mod metering;
mod prepare;
mod probe;
mod progress;
mod propagation;
mod receipts;
mod rounds;
mod running_peer;
mod session;
mod site;
mod spikes;
mod steps;
mod timeline;
mod trial;
mod user_cluster;
