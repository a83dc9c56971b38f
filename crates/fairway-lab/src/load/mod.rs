//! load

pub mod command;
