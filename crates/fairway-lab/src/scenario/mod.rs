//! scenario

pub mod command;
