//! Where an error of an entry stands, whatever editor wrote the file.

use toolrack_config::Problem;

/// Files of servers, each with its one error, whose place `§` marks.
const JSON: &[(&str, &str)] = &[
    ("\"command\": §5", "`command` must be text, not a number"),
    ("\"command\": \"x\", \"args\": [\"ü🦀\", §[]]", "`args[1]` must be text"),
    ("\"command\": \"x\", \"env\": {\n\t\"A\": \"1\",\n\t\"B\": §[1] }", "`env.B` must be text"),
    ("\"command\": \"x\", \"env\": { \"A\": §\"${A\" }", "`env.A`: "),
    ("\"command\": \"x\", /* \" */ \"cwd\": §{}", "`cwd` must be text"),
    ("\"command\": \"x\", // [\n  \"retry\": §-1", "`retry` must be a whole number"),
    ("\"command\": \"x\", \"callTimeout\": §\"soon\"", "`callTimeout` must be a time"),
    ("\"command\": \"x\", \"sandbox\": { \"limits\": { \"files\": §8 } }", "`files` must be a whole number from 16"),
    ("\"command\": \"x\", \"sandbox\": { §\"network\": {}, \"read\": [] }", "`sandbox.network` is not a known field"),
    (
        "\"command\": \"x\", \"container\": { \"image\": \"x\", \"mounts\": [\"/a:/b\", §\"a\"] }",
        "`container.mounts[1]` must be `SOURCE:TARGET`",
    ),
    ("\"url\": \"https://x\", \"headers\": { \"A\": \"1\", \"a\": §\"2\" }", "`headers.a` is given twice"),
    ("\"url\": \"https://x\",\n §\"args\": [\"x\"]", "`args` means nothing to a server of type `http`"),
    ("\"command\": \"x\", §\"command\": \"y\"", "`command` is given twice"),
    ("\"command\": \"x\", \"enabled\": true, \"disabled\": §true", "`enabled` and `disabled` contradict"),
];

const TOML: &[(&str, &str)] = &[
    ("command = §5", "`command` must be text, not a number"),
    ("command = \"x\" # \"\nargs = [\n  \"ü🦀\", # one\n  §[],\n]", "`args[1]` must be text"),
    ("command = \"x\"\n[mcp_servers.x.env]\nA = \"1\"\nB = §[1]", "`env.B` must be text"),
    ("command = \"\"\"x\"\"\"\nenv.A = §'${A'", "`env.A`: "),
    ("command = \"x\"\ncall_timeout = §\"soon\"", "`call_timeout` must be a time"),
    ("command = \"x\"\nsandbox.limits.files = §8", "`files` must be a whole number from 16"),
    ("url = \"https://x\"\n§args = [\"x\"]", "`args` means nothing to a server of type `http`"),
];

/// The one error of a file, with the line and the column of the mark in its text.
fn error_of(name: &str, marked: &str, sentence: &str) -> (Problem, (usize, usize)) {
    let at = marked.find('§').expect(marked);
    let before = marked[..at].trim_start_matches('\u{feff}');
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
    let loaded = super::load_text(name, marked.replace('§', ""));
    let mut errors: Vec<_> = loaded.problems.into_iter().filter(Problem::is_error).collect();
    assert_eq!(errors.len(), 1, "{marked}: {errors:#?}");
    let error = errors.remove(0);
    assert!(error.message.starts_with(sentence), "{marked}: {}", error.message);
    assert_eq!(error.entry.as_deref(), Some("x"), "{marked}");
    (error, (line, column))
}

#[test]
fn an_error_points_at_its_value_in_the_layout_of_every_editor() {
    let json = JSON.iter().map(|(fields, sentence)| {
        ("mcp.json", format!("{{\n  // \"é\n\t\"mcpServers\": {{\n  \"x\": {{ {fields} }},\n}}, }}\n"), sentence)
    });
    let toml =
        TOML.iter().map(|(fields, sentence)| ("config.toml", format!("# é\n[mcp_servers.x]\n{fields}\n"), sentence));
    for (name, text, sentence) in json.chain(toml) {
        let windows = text.replace('\n', "\r\n");
        for text in [format!("\u{feff}{text}"), format!("\u{feff}{windows}"), windows, text] {
            let (error, place) = error_of(name, &text, sentence);
            assert_eq!((error.line, error.column), (Some(place.0), Some(place.1)), "{text}");
            let shown = error.to_string();
            let mark = shown.lines().find(|line| line.trim_start().starts_with("| ") && line.contains('^'));
            assert!(mark.is_some() && !shown.contains('\r'), "{shown}");
        }
    }
}
