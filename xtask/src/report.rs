//! The steps that ran, their outcomes, and each skipped part with its reason.

use std::process::ExitCode;
use std::time::Instant;

/// The reason why a step did not succeed.
#[derive(Debug)]
pub(crate) enum Stop {
    /// The step cannot run here. It is reported and counted, but is not a failure.
    Skipped(String),
    /// The step failed.
    Failed(String),
}

/// The outcome of a step: success, or the reason why not.
pub(crate) type Step = Result<(), Stop>;

/// The steps so far, in their order.
#[derive(Debug, Default)]
pub(crate) struct Report {
    passed: usize,
    skipped: Vec<String>,
    failed: Vec<String>,
    has_printed: bool,
}

impl Report {
    /// Runs one step under a headline and records its outcome. Later steps run even if this one fails.
    pub(crate) fn step(&mut self, name: &str, step: impl FnOnce() -> Step) {
        println!("── {name}");
        let started = Instant::now();
        let outcome = step();
        let seconds = started.elapsed().as_secs();
        match outcome {
            Ok(()) => {
                println!("── {name}: passed in {seconds} s\n");
                self.passed += 1;
            }
            Err(Stop::Skipped(why)) => {
                println!("── {name}: SKIPPED, {why}\n");
                self.skipped.push(format!("{name}: {why}"));
            }
            Err(Stop::Failed(why)) => {
                println!("── {name}: FAILED after {seconds} s, {why}\n");
                self.failed.push(format!("{name}: {why}"));
            }
        }
    }

    /// Runs the last step. The summary of the earlier steps is printed first, so that the output of this step comes
    /// last.
    pub(crate) fn last_step(&mut self, name: &str, step: impl FnOnce() -> Step) {
        self.print_summary();
        println!("── {name}");
        match step() {
            Ok(()) => self.passed += 1,
            Err(Stop::Skipped(why)) => self.skipped.push(format!("{name}: {why}")),
            Err(Stop::Failed(why)) => self.failed.push(format!("{name}: {why}")),
        }
    }

    /// Prints the summary so far, if there are any steps.
    fn print_summary(&mut self) {
        self.has_printed = true;
        if self.passed + self.failed.len() + self.skipped.len() == 0 {
            return;
        }
        let (passed, failed, skipped) = (self.passed, self.failed.len(), self.skipped.len());
        println!("── steps: {passed} passed, {failed} failed, {skipped} skipped");
        self.failed.iter().for_each(|step| println!("   failed   {step}"));
        self.skipped.iter().for_each(|step| println!("   skipped  {step}"));
        println!();
    }

    /// Prints the summary if it was not printed yet, and returns whether all steps succeeded.
    pub(crate) fn finish(mut self) -> ExitCode {
        if !self.has_printed {
            self.print_summary();
        }
        if self.failed.is_empty() {
            return ExitCode::SUCCESS;
        }
        for step in &self.failed {
            eprintln!("error: {step}");
        }
        ExitCode::FAILURE
    }
}
