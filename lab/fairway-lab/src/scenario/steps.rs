//! The steps of a run: said before it begins, with how long each is likely to take, and counted while it goes.

use super::estimate::spoken;
use super::progress::Progress;

/// A step of a run.
#[derive(Clone, Debug)]
pub(super) struct Step {
    /// What is done, e.g. `bring up the testbed`.
    pub(super) what: String,
    /// How long that is likely to take, seconds.
    pub(super) seconds: f64,
}

/// Steps in their order, and which of them is next.
pub(super) struct Steps {
    progress: Progress,
    /// How many were done by the part of the run before.
    before: usize,
    all: Vec<Step>,
    next: usize,
}

impl Steps {
    pub(super) fn new(progress: Progress, before: usize, all: Vec<Step>) -> Self {
        Self { progress, before, all, next: 0 }
    }

    /// Says all of them, and how long they take together.
    pub(super) fn announce(&self) {
        for line in self.plan() {
            self.progress.say(&line);
        }
    }

    /// Says that the next one begins.
    pub(super) fn begin(&mut self) {
        if let Some(text) = self.beginning() {
            self.progress.say(&text);
        }
        self.next += 1;
    }

    /// Leaves out steps that another part of the run does, up to the last one.
    pub(super) fn skip_to_last(&mut self) {
        self.next = self.all.len().saturating_sub(1);
    }

    /// How many have begun, with those of the part before.
    pub(super) fn begun(&self) -> usize {
        self.before + self.next
    }

    fn plan(&self) -> Vec<String> {
        let total = self.all.iter().map(|step| step.seconds).sum();
        let mut lines = vec![format!("the plan: {} steps, about {}", self.all.len(), spoken(total))];
        lines.extend(
            self.all
                .iter()
                .enumerate()
                .map(|(at, step)| format!("{:>4}. {} (about {})", at + 1, step.what, spoken(step.seconds))),
        );
        lines
    }

    fn beginning(&self) -> Option<String> {
        let step = self.all.get(self.next)?;
        let left = self.all[self.next..].iter().map(|step| step.seconds).sum();
        let (number, total) = (self.before + self.next + 1, self.before + self.all.len());
        Some(format!("step {number} of {total}, about {} left: {}", spoken(left), step.what))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steps(before: usize) -> Steps {
        let step = |what: &str, seconds| Step { what: what.to_owned(), seconds };
        let all = vec![step("bring up the testbed", 30.0), step("dynamic", 240.0), step("take it down", 5.0)];
        Steps::new(Progress::begin(), before, all)
    }

    #[test]
    fn the_plan_has_every_step_with_its_time_and_the_sum() {
        assert_eq!(
            steps(0).plan(),
            [
                "the plan: 3 steps, about 5 min",
                "   1. bring up the testbed (about 30 s)",
                "   2. dynamic (about 4 min)",
                "   3. take it down (about 5 s)",
            ]
        );
    }

    #[test]
    fn a_step_says_its_place_and_what_is_left_of_the_time() {
        let mut steps = steps(9);
        steps.begin();
        assert_eq!(steps.beginning().unwrap(), "step 11 of 12, about 4 min left: dynamic");
        assert_eq!(steps.begun(), 10);
        steps.skip_to_last();
        assert_eq!(steps.beginning().unwrap(), "step 12 of 12, about 5 s left: take it down");
        steps.begin();
        assert_eq!(steps.beginning(), None);
    }
}
