//! The dashboard in a real browser: the tests themselves are in `crates/daemon/tests/browser/`, where Node runs them,
//! and each of their files is one test here, so that it is counted, skipped and timed as all others are.

use std::{path::PathBuf, process::Command};

use crate::rack::repository;

#[test]
fn every_file_with_tests_of_the_dashboard_is_run() {
    let tests = repository().join("crates/daemon/tests/browser");
    let this = include_str!("dashboard.rs");
    for folder in ["pages", "pure"] {
        for entry in std::fs::read_dir(tests.join(folder)).unwrap() {
            let file = entry.unwrap().file_name().into_string().unwrap();
            let name = file.strip_suffix(".test.mjs").unwrap_or_else(|| panic!("{folder}/{file} is not a test"));
            assert!(this.contains(&format!("\"{folder}/{name}\"")), "nothing here runs {folder}/{file}");
        }
    }
}

mod needs_browser {
    use super::*;
    use crate::rack::installed;

    #[test]
    fn the_types_in_the_scripts_are_right() {
        let compiler = packages().join("typescript/bin/tsc");
        let project = repository().join("crates/daemon/tests/browser/tsconfig.json");
        passes(node().arg(compiler).arg("--project").arg(project));
    }

    #[test]
    fn forms_give_the_values_that_are_typed() {
        tests_of("pure/schema");
    }

    #[test]
    fn entries_survive_their_forms() {
        tests_of("pure/entry");
    }

    #[test]
    fn copies_for_other_programs_hide_hidden_values() {
        tests_of("pure/copy");
    }

    #[test]
    fn events_change_what_is_shown() {
        tests_of("pure/live");
    }

    #[test]
    fn addresses_are_followed_only_where_they_may_be() {
        tests_of("pure/places");
    }

    #[test]
    fn markdown_of_models_becomes_no_more_than_text_and_links() {
        tests_of("pure/markdown");
    }

    #[test]
    fn every_page_of_the_guide_is_read_and_every_link_in_it_leads_somewhere() {
        tests_of("pure/help");
    }

    #[test]
    fn turns_are_made_of_their_events() {
        tests_of("pure/turn");
    }

    #[test]
    fn text_that_hides_something_is_spelled_out() {
        tests_of("pure/visible");
    }

    #[test]
    fn numbers_stay_as_they_are_written() {
        tests_of("pure/exact-json");
    }

    #[test]
    fn choices_are_remembered() {
        tests_of("pure/choice");
    }

    #[test]
    fn differences_lose_no_line() {
        tests_of("pure/difference");
    }

    #[test]
    fn rows_of_the_audit_log_say_who_did_what_to_what() {
        tests_of("pure/audit-row");
    }

    #[test]
    fn slow_requests_wait_for_a_slot_where_the_browser_has_locks() {
        tests_of("pure/slots");
    }

    #[test]
    fn the_page_opens_with_its_token_only() {
        tests_of("pages/door");
    }

    #[test]
    fn many_tabs() {
        tests_of("pages/tabs");
    }

    #[test]
    fn the_overview() {
        tests_of("pages/overview");
    }

    #[test]
    fn servers() {
        tests_of("pages/servers");
    }

    #[test]
    fn one_server() {
        tests_of("pages/server");
    }

    #[test]
    fn changes_of_the_configuration() {
        tests_of("pages/changes");
    }

    #[test]
    fn tools() {
        tests_of("pages/tools");
    }

    #[test]
    fn approvals() {
        tests_of("pages/approvals");
    }

    #[test]
    fn trust() {
        tests_of("pages/trust");
    }

    #[test]
    fn text_that_wants_to_deceive() {
        tests_of("pages/deceptive");
    }

    #[test]
    fn tools_in_quarantine() {
        tests_of("pages/quarantine");
    }

    #[test]
    fn sessions() {
        tests_of("pages/sessions");
    }

    #[test]
    fn agents() {
        tests_of("pages/agents");
    }

    #[test]
    fn signing_in() {
        tests_of("pages/sign-in");
    }

    #[test]
    fn the_audit_log() {
        tests_of("pages/audit");
    }

    #[test]
    fn chat() {
        tests_of("pages/chat");
    }

    #[test]
    fn the_guide_under_help() {
        tests_of("pages/help");
    }

    #[test]
    fn configuration() {
        tests_of("pages/config");
    }

    mod needs_provider {
        #[test]
        fn people_of_a_team() {
            super::tests_of("pages/team");
        }

        #[test]
        fn no_forged_or_misused_token_opens_the_endpoint_of_a_team() {
            super::tests_of("pages/team_attacks_tokens");
        }

        #[test]
        fn no_attack_on_a_sign_in_or_a_session_of_a_team_succeeds() {
            super::tests_of("pages/team_attacks_sign_in");
        }

        #[test]
        fn no_attack_with_an_oauth_client_of_a_team_succeeds() {
            super::tests_of("pages/team_attacks_clients");
        }

        #[test]
        fn no_request_that_can_be_read_in_two_ways_passes_the_guard_of_a_team() {
            super::tests_of("pages/team_attacks_requests");
        }

        #[test]
        fn no_member_reaches_data_of_another_member() {
            super::tests_of("pages/team_attacks_members");
        }

        #[test]
        fn members_of_a_team_and_their_access() {
            super::tests_of("pages/people");
        }

        #[test]
        fn use_of_quotas_by_members() {
            super::tests_of("pages/quotas");
        }

        mod needs_clients {
            mod needs_python {
                mod needs_node_frameworks {
                    mod needs_python_frameworks {
                        #[test]
                        fn oauth_clients_of_others_connect_to_a_team() {
                            crate::dashboard::needs_browser::tests_of("pages/team_clients");
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn values_that_servers_need_from_users() {
        tests_of("pages/credentials");
    }

    mod needs_proxy {
        #[test]
        fn the_page_below_a_path_of_nginx() {
            super::tests_of("pages/proxy");
        }
    }

    #[test]
    fn every_page_can_be_used_by_every_user() {
        tests_of("pages/accessible");
    }

    fn tests_of(name: &str) {
        let file = repository().join(format!("crates/daemon/tests/browser/{name}.test.mjs"));
        passes(node().args(["--test", "--test-reporter", "spec"]).arg(file));
    }

    fn passes(command: &mut Command) {
        let output = command
            .env("TOOLRACK_TEST_BINARY", env!("CARGO_BIN_EXE_toolrack"))
            .env("TOOLRACK_TEST_DASHBOARD", packages())
            .output()
            .unwrap();
        let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "{}\n{out}\n{err}", output.status);
    }

    fn node() -> Command {
        Command::new(installed("TOOLRACK_TEST_NODE22", ".cache/npm/node_modules/.bin/node"))
    }

    fn packages() -> PathBuf {
        installed("TOOLRACK_TEST_DASHBOARD", ".cache/dashboard/node_modules")
    }
}
