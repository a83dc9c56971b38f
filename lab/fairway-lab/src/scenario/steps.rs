//! The steps of a run: announced before it starts and counted as it goes.

use super::progress::Progress;

/// The ordered steps of a run, such as `bring up the testbed`, and the next one.
pub(super) struct Steps {
    progress: Progress,
    /// How many were done by the earlier part of the run.
    before: usize,
    all_steps: Vec<String>,
    next: usize,
}

impl Steps {
    pub(super) fn new(progress: Progress, before: usize, all: Vec<String>) -> Self {
        Self { progress, before, all_steps: all, next: 0 }
    }

    /// Announces the number of steps.
    pub(super) fn announce(&self) {
        self.progress.say(&format!(
            "the plan has {} steps: {}",
            self.all_steps.len(),
            self.all_steps.join("; ")
        ));
    }

    /// Announces the next step.
    pub(super) fn begin(&mut self) {
        if let Some(step) = self.all_steps.get(self.next) {
            let (number, total) = (self.before + self.next + 1, self.before + self.all_steps.len());
            self.progress.say(&format!("step {number} of {total}: {step}"));
        }
        self.next += 1;
    }

    /// Leaves out steps that another part of the run does, up to the last one.
    pub(super) fn skip_to_last(&mut self) {
        self.next = self.all_steps.len().saturating_sub(1);
    }

    /// How many have started, including those of the earlier part.
    pub(super) fn begun(&self) -> usize {
        self.before + self.next
    }
}
