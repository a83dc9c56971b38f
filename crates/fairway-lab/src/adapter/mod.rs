//! adapter

pub mod command;
