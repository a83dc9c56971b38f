//! Every integration test of this crate in one program, which is linked once; a file is a subject.

#![allow(clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

mod authentication;
mod bad_input;
mod blast_radius;
mod body_policies;
mod buffering;
mod changes;
mod chart;
mod churn;
mod combinations;
mod command_line;
mod compare;
mod compression;
mod conformance;
mod dashboards;
mod documents;
mod exhaustion;
mod flight_recorder;
mod floods;
mod gateways;
mod geoip;
mod inspect;
mod install;
mod kubectl;
mod logins;
mod manifests_of_ingress_nginx;
mod many_routes;
mod migrate;
mod migrate_gateway_api;
mod nginx;
mod passthrough;
mod patterns;
mod policies;
mod recorded;
mod serving;
mod settings;
mod shared_services;
mod silent_cluster;
mod snippets;
mod studies;
mod telemetry;
mod tenants;
mod tokens;
mod trust;
mod upgrade;
