//! The scenarios that come with the laboratory, and those of the user: a name or a path to a definition.

use std::fs;
use std::path::Path;

use anyhow::Context;

use super::definition::{Definition, Scaling};
use super::{comparison, dynamic, gateway, propagation, timeline};
use crate::peers::RouteApi;

/// The laboratory's own, in the order in which `all` runs them.
pub(super) const ALL: [(&str, &str); 4] = [
    ("dynamic", include_str!("../../scenarios/dynamic.toml")),
    ("comparison", include_str!("../../scenarios/comparison.toml")),
    ("timeline", include_str!("../../scenarios/timeline.toml")),
    ("propagation", include_str!("../../scenarios/propagation.toml")),
];

/// Scenarios that run only when named, because not every peer supports them.
pub(super) const ON_REQUEST: [(&str, &str); 1] =
    [("gateway-api", include_str!("../../scenarios/gateway-api.toml"))];

/// The scenarios of the laboratory.
pub(super) fn known_scenarios() -> impl Iterator<Item = (&'static str, &'static str)> {
    ALL.into_iter().chain(ON_REQUEST)
}

/// A scenario with its parameters read.
pub(super) struct Scenario {
    pub(super) definition: Definition,
    pub(super) parameters: Parameters,
    /// The fraction of requests of its streams that are POST.
    pub(super) posts: f64,
}

/// The parameters of each kind.
pub(super) enum Parameters {
    Dynamic(dynamic::Parameters),
    Comparison(comparison::Parameters),
    Timeline(timeline::Parameters),
    Propagation(propagation::Parameters),
    Gateway(gateway::Parameters),
}

impl Scenario {
    pub(super) fn name(&self) -> &str {
        &self.definition.heading.scenario
    }

    /// The API for routes.
    pub(super) fn api(&self) -> RouteApi {
        match self.parameters {
            Parameters::Gateway(_) => RouteApi::Gateway,
            _ => RouteApi::Ingress,
        }
    }
}

/// The scenarios that were named: `all`, names, or paths to files.
///
/// # Errors
/// A name that is neither, a file that cannot be read, or an unknown key in it.
pub(super) fn named(names: &[String], scaling: &Scaling) -> anyhow::Result<Vec<Scenario>> {
    let mut scenarios = Vec::new();
    for name in names {
        if name == "all" {
            for (_, text) in ALL {
                scenarios.push(read(text, scaling)?);
            }
            continue;
        }
        let known = known_scenarios().find(|(known, _)| known == name).map(|(_, text)| text.to_owned());
        let text = known.map_or_else(|| file(name), Ok)?;
        scenarios.push(read(&text, scaling).with_context(|| format!("scenario {name}"))?);
    }
    Ok(scenarios)
}

fn file(name: &str) -> anyhow::Result<String> {
    let names: Vec<_> = known_scenarios().map(|(name, _)| name).collect();
    anyhow::ensure!(
        Path::new(name).extension().is_some(),
        "there is no scenario {name:?}; there are all, {}, and files (*.toml)",
        names.join(", ")
    );
    fs::read_to_string(name).with_context(|| format!("read the scenario {name}"))
}

fn read(text: &str, scaling: &Scaling) -> anyhow::Result<Scenario> {
    let mut definition = Definition::read(text, scaling)?;
    let posts = definition.take_fraction("posts")?;
    let parameters = match definition.heading.scenario.as_str() {
        "dynamic" => Parameters::Dynamic(definition.parameters()?),
        "comparison" => Parameters::Comparison(definition.parameters()?),
        "timeline" => Parameters::Timeline(definition.parameters()?),
        "propagation" => Parameters::Propagation(definition.parameters()?),
        "gateway-api" => Parameters::Gateway(definition.parameters()?),
        other => anyhow::bail!(
            "scenario = {other:?}: a file's scenario is one of those that `fairway-lab list` names"
        ),
    };
    Ok(Scenario { definition, parameters, posts })
}

#[cfg(test)]
mod tests {
    use super::super::definition::Form;
    use super::*;

    #[test]
    fn every_scenario_reads_in_each_of_its_forms() {
        for form in [Form::Whole, Form::Quick, Form::Long] {
            let scaling = Scaling { form, scale: 0.05, set: Vec::new() };
            let scenarios = named(&["all".to_owned()], &scaling).expect("they read");
            let names: Vec<_> = scenarios.iter().map(Scenario::name).collect();
            assert_eq!(names, ALL.map(|(name, _)| name));
        }
    }

    #[test]
    fn the_scenario_of_the_gateway_api_is_read_in_each_form_and_is_none_of_all() {
        let names = ["gateway-api".to_owned()];
        for form in [Form::Whole, Form::Quick, Form::Long] {
            let scaling = Scaling { form, scale: 0.05, set: Vec::new() };
            let [scenario] = &named(&names, &scaling).expect("it reads")[..] else { panic!("one was named") };
            assert_eq!((scenario.name(), scenario.api()), ("gateway-api", RouteApi::Gateway));
            assert!(ALL.iter().all(|(name, _)| *name != scenario.name()));
        }
    }

    #[test]
    fn without_options_the_parameters_of_the_paper_are_used() {
        let scaling = Scaling { form: Form::Whole, scale: 1.0, set: Vec::new() };
        let names: Vec<_> = known_scenarios().map(|(name, _)| name.to_owned()).collect();
        for scenario in named(&names, &scaling).expect("they read") {
            assert_eq!(scenario.definition.shortened, Vec::<String>::new(), "{}", scenario.name());
        }
    }

    #[test]
    fn an_unknown_scenario_is_reported_with_the_known_ones() {
        let scaling = Scaling { form: Form::Whole, scale: 1.0, set: Vec::new() };
        let error = named(&["dinamic".to_owned()], &scaling).err().expect("it is none").to_string();
        assert!(error.contains("dinamic") && error.contains("timeline"), "{error}");
    }
}
