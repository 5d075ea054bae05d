use super::*;

fn problem() -> Problem {
    Problem::error("it is wrong").in_file("/etc/x.json").in_entry("demo").hint("mend it")
}

#[test]
fn a_problem_tells_its_place_as_far_as_that_is_known() {
    let placed = |line, column| Problem { line, column, ..problem() };
    for (problem, headline) in [
        (placed(None, None), "/etc/x.json: error: `demo`: it is wrong"),
        (placed(Some(3), None), "/etc/x.json:3: error: `demo`: it is wrong"),
        (placed(Some(3), Some(7)), "/etc/x.json:3:7: error: `demo`: it is wrong"),
        (Problem { path: None, ..placed(Some(3), Some(7)) }, "error: `demo`: it is wrong"),
        (Problem { entry: None, ..placed(None, None) }, "/etc/x.json: error: it is wrong"),
        (Problem::warning("odd"), "warning: odd"),
    ] {
        assert_eq!(format!("{problem:#}"), headline);
        assert_eq!(problem.to_string().lines().next(), Some(headline));
    }
    assert_eq!(Problem::warning("odd").place(), "");
}

#[test]
fn a_problem_shows_the_line_only_where_its_number_is_known_and_the_next_step_last() {
    let snippet = Snippet { text: "\"a\": ***".into(), start: 5, width: 3 };
    let shown = Problem { line: Some(12), snippet: Some(snippet), ..problem() };
    assert_eq!(
        shown.to_string(),
        "/etc/x.json:12: error: `demo`: it is wrong\n  12 | \"a\": ***\n     |      ^^^\n  hint: mend it"
    );
    assert_eq!(Problem { line: None, ..shown }.to_string(), "/etc/x.json: error: `demo`: it is wrong\n  hint: mend it");
}

#[test]
fn foreign_words_in_a_problem_cannot_act_on_a_terminal() {
    let foreign = "\u{1b}[2J\r\n\u{202e}x";
    let problem = Problem::error(foreign).in_file(foreign).in_entry(foreign).field(foreign).hint(foreign);
    let shown = problem.to_string();
    assert_eq!(shown.lines().count(), 2, "{shown}");
    assert!(shown.chars().all(|c| c == '\n' || !(c.is_control() || c == '\u{202e}')), "{shown:?}");
}

#[test]
fn problems_are_errors_or_warnings_and_json_has_all_fields() {
    assert!(problem().is_error() && !Problem::warning("odd").is_error());
    assert!(Severity::Error > Severity::Warning);
    let json = serde_json::to_value(Problem { line: Some(3), ..problem() }.field("env.A").minor()).unwrap();
    let expected = serde_json::json!({
        "severity": "error", "path": "/etc/x.json", "line": 3, "entry": "demo", "field": "env.A",
        "message": "it is wrong", "hint": "mend it",
    });
    assert_eq!(json, expected);
}
