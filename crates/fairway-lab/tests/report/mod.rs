//! The report as readers meet it: in a real browser, as a file, and in README. Results are synthetic ([`fixture`]).

#![allow(clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

mod browser;
mod file;
mod fixture;
mod published;
mod reading;
mod readme;
