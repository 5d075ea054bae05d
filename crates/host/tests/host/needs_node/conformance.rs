//! The official conformance suite: every client scenario of both revisions whose name does not begin with `auth/`.
//!
//! The suite plays the server and starts the testkit's `conformance-client`, which goes through a host.

use std::process::Command;

use crate::programs::{node, npm, testkit_program};

fn passes(scenario: &str, version: &str) {
    let results = tempfile::tempdir().unwrap();
    let output = Command::new(node())
        .arg(npm("@modelcontextprotocol/conformance/dist/index.js"))
        .args(["client", "--scenario", scenario, "--spec-version", version, "--command"])
        .arg(testkit_program("conformance-client"))
        .current_dir(results.path())
        .output()
        .unwrap();
    let said = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
    assert!(output.status.success(), "{scenario} at {version}: {}\n{said}", output.status);
}

macro_rules! scenarios {
    ($version:literal: $($test:ident $scenario:literal,)*) => {
        $(
            #[test]
            fn $test() {
                passes($scenario, $version);
            }
        )*
    };
}

mod legacy {
    use super::passes;

    scenarios! { "2025-11-25":
        initialize "initialize",
        tools_call "tools_call",
        elicitation_defaults "elicitation-sep1034-client-defaults",
        // Not scored.
        schema_preservation "json-schema-2020-12-preservation",
    }

    /// Measures how soon a broken stream is opened again: it has the machine to itself.
    mod alone {
        use super::super::passes;

        scenarios! { "2025-11-25":
            sse_retry "sse-retry",
        }
    }
}

mod modern {
    use super::passes;

    scenarios! { "2026-07-28":
        tools_call "tools_call",
        request_metadata "request-metadata",
        request_state "sep-2322-client-request-state",
        standard_headers "http-standard-headers",
        custom_headers "http-custom-headers",
        invalid_tool_headers "http-invalid-tool-headers",
        schema_refs_are_not_fetched "json-schema-ref-no-deref",
        // Not scored.
        schema_preservation "json-schema-2020-12-preservation",
    }
}
