//! Collects the problems of all files, limited to a number that a user can read.

use std::{collections::BTreeMap, path::PathBuf};

use crate::problem::{Problem, Severity};

/// The maximum number of errors, and also of warnings, that are reported for one file. A file is untrusted and may have
/// a hundred thousand.
const MAX_REPORTED: usize = 100;

/// Problems in the order in which they were found.
#[derive(Debug, Default)]
pub(super) struct ProblemCollector {
    problems: Vec<Problem>,
    /// The number of problems by file and severity, including those that were left out.
    counts: BTreeMap<(Option<PathBuf>, Severity), usize>,
}

impl ProblemCollector {
    pub(super) fn add(&mut self, problem: Problem) {
        let count = self.counts.entry((problem.path.clone(), problem.severity)).or_default();
        *count += 1;
        if *count <= MAX_REPORTED {
            self.problems.push(problem);
        }
    }

    pub(super) fn extend(&mut self, problems: impl IntoIterator<Item = Problem>) {
        problems.into_iter().for_each(|problem| self.add(problem));
    }

    /// Returns the problems. For each file with more than [`MAX_REPORTED`] of one severity, adds a problem that says
    /// how many are left out.
    pub(super) fn into_problems(mut self) -> Vec<Problem> {
        for ((path, severity), count) in self.counts {
            if count > MAX_REPORTED {
                let message = format!("and {} more like it, not shown", count - MAX_REPORTED);
                self.problems.push(Problem { path, ..Problem::new(severity, message) });
            }
        }
        self.problems
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_than_a_user_reads_is_counted_for_each_file_and_kind() {
        let mut reported = ProblemCollector::default();
        reported.extend((0..250).map(|n| Problem::warning(format!("w{n}")).in_file("a.json")));
        reported.extend((0..100).map(|n| Problem::error(format!("e{n}")).in_file("a.json")));
        reported.extend((0..101).map(|n| Problem::error(format!("e{n}")).in_file("b.json")));
        let problems = reported.into_problems();
        assert_eq!(problems.len(), 302);
        assert_eq!(problems[99].message, "w99");
        let last: Vec<_> = problems[300..].iter().map(ToString::to_string).collect();
        assert_eq!(
            last,
            ["a.json: warning: and 150 more like it, not shown", "b.json: error: and 1 more like it, not shown"]
        );
    }
}
