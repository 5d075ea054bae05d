//! Writes a change as a diff, for the user.

use std::path::Path;

use toolrack_host::text::for_line;

use crate::{document::Document, redact};

/// The number of unchanged lines that the diff shows before and after the change.
const CONTEXT_LINES: usize = 3;

/// Returns the change from `before` to `after` as one hunk of a unified diff, with secrets hidden and control
/// characters visible; empty when the texts are equal.
pub(crate) fn unified(path: &Path, before: &str, after: &str) -> String {
    if before == after {
        return String::new();
    }
    let [before, after] = [before, after].map(|text| redact::redact_file(&Document::new(Some(path.to_owned()), text)));
    let old_lines: Vec<&str> = before.lines().collect();
    let new_lines: Vec<&str> = after.lines().collect();
    let count_equal = |pairs: &mut dyn Iterator<Item = (&&str, &&str)>| pairs.take_while(|(a, b)| a == b).count();
    let equal_start = count_equal(&mut old_lines.iter().zip(&new_lines));
    let equal_end = count_equal(&mut old_lines[equal_start..].iter().rev().zip(new_lines[equal_start..].iter().rev()));

    let hunk_start = equal_start.saturating_sub(CONTEXT_LINES);
    let (old_end, new_end) = (old_lines.len() - equal_end, new_lines.len() - equal_end);
    let context_after = CONTEXT_LINES.min(equal_end);
    let range = |end: usize| {
        let count = end + context_after - hunk_start;
        // Lines count from 1. The position of an empty range is the line before it.
        format!("{},{count}", if count == 0 { hunk_start } else { hunk_start + 1 })
    };
    let path = for_line(&path.display().to_string()).into_owned();
    let mut diff = format!("--- {path}\n+++ {path}\n@@ -{} +{} @@\n", range(old_end), range(new_end));
    let mut push_lines = |mark: char, lines: &[&str]| {
        for line in lines {
            let line = line.strip_suffix('\r').unwrap_or(line).replace('\t', "    ");
            diff.push(mark);
            diff.push_str(&for_line(&line));
            diff.push('\n');
        }
    };
    push_lines(' ', &old_lines[hunk_start..equal_start]);
    push_lines('-', &old_lines[equal_start..old_end]);
    push_lines('+', &new_lines[equal_start..new_end]);
    push_lines(' ', &new_lines[new_end..new_end + context_after]);
    diff
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_diff_shows_the_change_and_a_little_around_it() {
        let before = "1\n2\n3\n4\n5\n6\n7\n8\n9\n";
        let after = before.replace("5\n", "5a\n5b\n");
        assert_eq!(
            unified(Path::new("f"), before, &after),
            "--- f\n+++ f\n@@ -2,7 +2,8 @@\n 2\n 3\n 4\n-5\n+**\n+**\n 6\n 7\n 8\n"
        );
        assert_eq!(unified(Path::new("f"), before, before), "");
    }

    #[test]
    fn a_diff_of_a_new_file_begins_at_nothing() {
        let diff = unified(Path::new("f"), "", "{\n}\n");
        assert_eq!(diff, "--- f\n+++ f\n@@ -0,0 +1,2 @@\n+{\n+}\n");
    }

    #[test]
    fn a_diff_hides_secrets() {
        let file = |value: &str| format!(r#"{{ "mcpServers": {{ "a": {{ "env": {{ "K": "{value}" }} }} }} }}"#);
        let diff = unified(Path::new("f"), &file("canary"), &file("${K}"));
        assert!(!diff.contains("canary") && diff.contains("${K}"), "{diff}");
    }
}
