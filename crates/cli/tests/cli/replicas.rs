//! Replicas behind a load balancer, one of which is killed all the time: the drill in its short form.

// What it kills and freezes is timed.
mod alone {
    mod needs_node {
        mod needs_proxy {
            mod needs_postgres {
                use std::process::{Command, Stdio};

                use crate::rack::{installed, repository};

                /// Less than the drill has by default: a debug build, two processors, and half a minute.
                const SHORT: &str = "--seconds 30 --kill-every 6 --tenants 6 --people 4 --clients 24 --stdio 2";

                #[test]
                fn replicas_that_are_killed_execute_no_call_twice_and_show_no_member_the_words_of_another() {
                    let node = installed("TOOLRACK_TEST_NODE22", ".cache/npm/node_modules/.bin/node");
                    let output = Command::new(node)
                        .arg(repository().join("xtask/drill/replicas.mjs"))
                        .arg(env!("CARGO_BIN_EXE_toolrack"))
                        .args(SHORT.split(' '))
                        .stdin(Stdio::null())
                        .output()
                        .unwrap();
                    let report = String::from_utf8_lossy(&output.stdout);
                    assert!(output.status.success(), "{report}\n{}", String::from_utf8_lossy(&output.stderr));
                    assert!(report.contains("executed twice      0 ") && report.contains("faults\n"), "{report}");
                }
            }
        }
    }
}
