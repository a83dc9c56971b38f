//! report

pub mod command;
