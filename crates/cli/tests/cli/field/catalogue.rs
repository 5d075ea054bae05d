//! Every defect of the field that Toolrack could have, and the test that shows that it does not.
//!
//! From measurements of today's command lines, and from the changelogs and issues of Claude Code, Codex, goose, Gemini
//! CLI, opencode, mcporter, agentgateway and others. It leaves out areas that Toolrack did not have when it was
//! written: OAuth, the agent's loop.

use std::{fs, path::Path};

/// A defect, and the test that shows that Toolrack does not have it: `file::test`, or the row of a table of tests.
type Row = (&'static str, &'static [(&'static str, &'static str)]);

const CLI: &str = "crates/cli/tests/cli";
const CONFIG: &str = "crates/config/src";
const FAULTS: &str = "crates/host/tests/faults";
const STORY: &str = "crates/host/tests/host/story";
const HOST: &str = "crates/host/src";

/// Measured in command lines of today.
const MEASURED: &[Row] = &[
    (
        "a secret masked in the table and printed by --json",
        &[("field", "json_output_hides_the_same_values_as_the_page")],
    ),
    ("`remove` of an unknown name ends with 0", &[("field", "an_unknown_name_fails_every_command_without_a_trace")]),
    (
        "`get` of an unknown name prints a stack trace",
        &[("field", "an_unknown_name_fails_every_command_without_a_trace")],
    ),
    ("a tool's error, a missing argument, an unknown tool end with 0", &[("field", "no_call_that_failed_ends_with_0")]),
    ("`--help` of a command is an unknown flag", &[("help", "every_command_says_the_same_as_ever_and_has_examples")]),
    ("--json prints a bare value", &[("field", "a_result_comes_in_an_envelope")]),
    ("`list` cannot fail when servers do", &[("manage", "list_fails_on_request_when_something_is_down")]),
    ("`--` means one thing here and another there", &[("field", "two_dashes_end_the_options_of_every_command")]),
];

/// MCP itself.
const PROTOCOL: &[Row] = &[
    ("lists stop after their first page", &[(STORY, "field.rs::every_page_of_every_list_is_read")]),
    (
        "a list of tools that failed is shown as no tools",
        &[
            (STORY, "catalogs.rs::a_server_whose_list_fails_is_connected_says_why_and_is_asked_again"),
            ("lists", "every_server_is_listed_with_how_it_is"),
        ],
    ),
    ("images are lost beside structured content", &[(STORY, "field.rs::a_picture_beside_structured_content_is_kept")]),
    ("only the first part of an error is shown", &[(STORY, "field.rs::every_part_of_an_error_is_shown")]),
    ("a line that is not JSON ends or hangs the server", &[(FAULTS, "startup.rs::a_banner")]),
    (
        "stdout without end fills the memory",
        &[
            (HOST, "link/framing/lines.rs::an_endless_line_is_an_error_and_is_never_stored"),
            (FAULTS, "answers.rs::a_line_that_does_not_end_ends_the_connection"),
        ],
    ),
    ("events without end fill the memory", &[(FAULTS, "streams.rs::an_event_without_an_end")]),
    (
        "stderr fills the memory",
        &[("crates/host/tests/processes", "starts.rs::a_flood_of_stderr_is_drained_and_bounded")],
    ),
    (
        "the probe of the era hangs, or ends the server",
        &[
            (FAULTS, "startup.rs::a_legacy_server_that_ignores_the_probe_is_asked_again_and_not_restarted"),
            (FAULTS, "startup.rs::not_a_byte"),
        ],
    ),
    ("servers are started that no command needs", &[("call", "only_the_server_that_is_named_is_started")]),
    (
        "a stream that ends is opened again without end",
        &[(FAULTS, "streams.rs::an_ended_subscription_is_opened_again_over_http")],
    ),
    ("a server that refuses the optional stream is lost", &[("field", "a_server_without_the_optional_stream_works")]),
    ("a stream that breaks during a call hangs it", &[(FAULTS, "streams.rs::cut_before_the_answer")]),
    (
        "a remote call that says nothing hangs forever",
        &[(STORY, "calls.rs::silence_ends_a_call_and_the_error_names_the_setting")],
    ),
    ("what one call hears keeps another alive", &[(STORY, "field.rs::progress_of_one_call_keeps_no_other_call_alive")]),
    (
        "giving up one call closes the server",
        &[(STORY, "calls.rs::the_cancellation_names_the_request_and_a_late_answer_disturbs_no_call")],
    ),
    ("`list` and starts that time out leave processes", &[("field", "no_command_leaves_a_process")]),
    ("a shell changes arguments", &[("field", "arguments_reach_a_server_as_they_are_written")]),
    (
        "a tool called `constructor` crashes",
        &[(STORY, "field.rs::a_name_that_means_something_to_a_language_is_a_name")],
    ),
    (
        "a schema with nested references breaks",
        &[("crates/cli/src/arguments", "tests.rs::references_are_followed_and_never_for_ever")],
    ),
    ("a schema hangs or overflows the program that reads it", &[("call", "an_endless_schema_does_not_delay_a_call")]),
    (
        "an emoji is cut in two",
        &[
            (HOST, "call/shape.rs::the_cut_is_between_characters"),
            (HOST, "text.rs::a_clip_never_splits_a_grapheme_cluster"),
        ],
    ),
    ("403 is a failure and not a missing sign-in", &[(FAULTS, "exchanges.rs::a_call_that_is_forbidden")]),
    (
        "bytes are printed, or kept under a wrong name",
        &[
            (STORY, "results.rs::large_pictures_sounds_and_embedded_files_become_artifacts"),
            ("crates/store/src", "artifacts/tests.rs::the_media_type_decides_the_extension_of_the_file"),
        ],
    ),
    (
        "a reconnection announces everything anew",
        &[(STORY, "events.rs::a_connection_is_reported_once_and_a_change_of_tools_does_not_count_as_a_new_one")],
    ),
    (
        "nothing is connected anew",
        &[(STORY, "recovery.rs::a_server_that_ends_is_reconnected_and_keeps_its_tools_meanwhile")],
    ),
    (
        "a change of the tools is not seen",
        &[(STORY, "catalogs.rs::tools_that_are_added_show_up_over_every_wire_and_era")],
    ),
    ("a second server renames the tools of the first", &[(STORY, "catalogs.rs::a_new_server_renames_no_other_tool")]),
    (
        "a list that says the same spoils the prompt cache",
        &[(STORY, "catalogs.rs::an_unchanged_list_does_not_count_as_a_change")],
    ),
    (
        "a call is sent twice",
        &[(STORY, "recovery.rs::a_call_in_a_lost_session_is_not_repeated_and_the_next_one_works")],
    ),
    (
        "processes outlive their host",
        &[(FAULTS, "processes.rs::no_process_survives_a_host_killed_in_the_middle_of_a_call")],
    ),
];

/// Configuration, trust and secrets.
const CONFIGURATION: &[Row] = &[
    (
        "a file that cannot be parsed does not count as a file without servers",
        &[("config", "a_file_that_cannot_be_read_is_shown_with_the_place")],
    ),
    ("one bad entry costs the others", &[("config", "one_bad_entry_costs_only_itself")]),
    (
        "`url` without `type` is refused",
        &[(CONFIG, "entry/tests.rs::the_transport_is_set_by_type_or_implied_by_the_fields")],
    ),
    ("an invisible blank breaks a value", &[(CONFIG, "entry/tests.rs::likely_mistakes_are_warnings")]),
    ("`${var%x}` is taken for a missing variable", &[(CONFIG, "placeholder.rs::every_form_of_the_grammar_expands")]),
    ("a name in two scopes hides one silently", &[("manage", "get_shows_hidden_entries_and_problems")]),
    (
        "a server's own time limit is ignored, or rounded to seconds",
        &[("field", "a_time_limit_of_an_entry_counts_below_a_second_too")],
    ),
    (
        "the same command with another environment is a duplicate",
        &[("field", "one_command_with_two_environments_is_two_servers")],
    ),
    (
        "a file of mistakes takes minutes to read",
        &[(CONFIG, "load/tests.rs::a_file_with_very_many_mistakes_is_read_in_linear_time_and_reported_in_part")],
    ),
    (
        "a piped `list` approves and starts what a project brings",
        &[("hostile", "no_command_does_anything_for_a_repository_that_the_user_does_not_trust")],
    ),
    (
        "a project approves itself with its own settings",
        &[("hostile", "no_command_does_anything_for_a_repository_that_the_user_does_not_trust")],
    ),
    ("agreeing to one server enables all", &[("hostile", "only_the_approved_content_of_an_entry_runs")]),
    ("what changed after it was approved still runs", &[("trust", "one_changed_argument_waits_again_and_is_shown")]),
    (
        "`list` and `get` print secrets",
        &[("hostile", "a_server_that_was_trusted_gets_its_secret_and_no_other_program_sees_it")],
    ),
    (
        "a tool that is denied is still offered",
        &[(STORY, "catalogs.rs::a_filter_hides_tools_before_a_caller_sees_them")],
    ),
    (
        "a rule is forgotten on reconnection, or matches parts of names",
        &[
            (STORY, "field.rs::a_hidden_tool_stays_hidden_by_every_name_and_after_every_change"),
            (HOST, "glob.rs::a_name_without_wildcards_matches_itself_only"),
        ],
    ),
    ("a rule is passed by with an option", &[("field", "a_hidden_tool_cannot_be_called_with_any_option")]),
];

#[test]
fn every_test_that_the_catalogue_names_is_there() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for (defect, tests) in [MEASURED, PROTOCOL, CONFIGURATION].concat() {
        assert!(!tests.is_empty(), "{defect}");
        for (place, test) in tests {
            let (file, name) = match test.split_once("::") {
                Some((file, name)) => (root.join(place).join(file), name),
                None => (root.join(CLI).join(format!("{place}.rs")), *test),
            };
            let text = fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
            // A test of its own, or a row of a table.
            let is_there = text.contains(&format!("fn {name}(")) || text.contains(&format!("{name}:"));
            assert!(is_there, "{name} is not in {}", file.display());
        }
    }
}
