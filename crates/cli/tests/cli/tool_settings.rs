//! The effects of `[tools]` and `role` in toolrack.toml.

use crate::rack::{Rack, fake, work_file};

/// A rack with a server whose name has a dash, and these settings.
fn rack(settings: &str) -> Rack {
    let rack = Rack::with(&[("my-fake", fake(&[]))]);
    rack.home.write("toolrack/toolrack.toml", settings);
    rack
}

/// The model-visible name of `echo` in the output of commands with `args`.
fn name_of_echo(rack: &Rack, args: &[&str]) -> String {
    let tools = rack.run(&[&["tools", "my-fake", "--json"], args].concat()).ends_with(0).json();
    let echo = tools["tools"].as_array().unwrap().iter().find(|tool| tool["tool"] == "echo").unwrap();
    echo["name"].as_str().unwrap().to_owned()
}

#[test]
fn c1_names_length_and_dashes_are_settings_of_a_file_for_all_and_for_one_agent() {
    let agent = "[[agents]]\nid = \"coder\"\n[agents.tools]\nnaming = \"x-{tool}--{server}\"\n";
    for (settings, name) in [
        ("", "mcp__my-fake__echo"),
        ("naming = \"server_tool\"", "my-fake_echo"),
        ("naming = \"mcp_server__tool\"", "mcp_my-fake__echo"),
        ("naming = \"tool\"", "echo"),
        ("dashes = \"underscore\"", "mcp__my_fake__echo"),
    ] {
        let rack = rack(&format!("[tools]\n{settings}\n{agent}"));
        assert_eq!(name_of_echo(&rack, &[]), name);
        assert_eq!(rack.run(&["call", name, "text=x"]).ends_with(0).stdout, "x", "{settings}");
    }
    assert_eq!(name_of_echo(&rack(agent), &["--agent", "coder"]), "x-echo--my-fake");
    let wrong = rack("[tools]\nname_length = 100\n").run(&["config", "validate"]);
    assert!(wrong.stderr.contains("`tools.name_length` must be 64 or 128"), "{wrong}");
}

#[test]
fn c13_arguments_are_checked_where_a_file_says_so_and_an_entry_says_otherwise() {
    let strict = rack("[tools]\nvalidate_args = \"strict\"\n");
    let call = ["call", "my-fake/add", "a=1", "--no-validate", "--json"];
    let refused = strict.run(&call).ends_with(2);
    assert_eq!(refused.error()["code"], "BAD_ARGUMENTS", "{refused}");
    let mut entry = fake(&[]);
    entry["validate_args"] = "warn".into();
    strict.configure(&[("my-fake", entry)]);
    let output = strict.run(&call).ends_with(0).json();
    assert!(output["warnings"][0].as_str().unwrap().contains("do not match the input schema"), "{output}");
}

#[test]
fn invisible_characters_are_removed_unless_a_file_or_an_entry_keeps_them() {
    let described = |rack: &Rack| {
        let tools = rack.run(&["tools", "my-fake", "--json"]).ends_with(0).json();
        let echo = tools["tools"].as_array().unwrap().iter().find(|tool| tool["tool"] == "echo").unwrap();
        echo["description"].as_str().unwrap().to_owned()
    };
    let hides = fake(&["--fault", "escape-text"]);
    for (settings, entry, keeps) in [
        ("", None, false),
        ("[tools]\ninvisible = \"keep\"\n", None, true),
        ("[tools]\ninvisible = \"keep\"\n", Some("remove"), false),
        ("", Some("keep"), true),
    ] {
        let rack = rack(settings);
        let mut configured = hides.clone();
        if let Some(mode) = entry {
            configured["invisible"] = mode.into();
        }
        rack.configure(&[("my-fake", configured)]);
        let described = described(&rack);
        assert_eq!(described.contains('\u{202e}'), keeps, "{settings} {entry:?}: {described}");
        assert!(described.contains("red") && described.contains("txt.exe"), "{described}");
    }
    let wrong = rack("[tools]\ninvisible = \"hide\"\n").run(&["config", "validate"]);
    assert!(wrong.stderr.contains("`tools.invisible` must be `remove` or `keep`"), "{wrong}");
}

#[test]
fn sb_2_a_channel_gets_no_tools_and_none_of_its_servers_is_started() {
    let marker = "started";
    let settings = format!(
        "[[agents]]\nid = \"boss\"\nrole = \"channel\"\n[[agents.mcp]]\nname = \"own\"\ncommand = \"touch\"\nargs = [\"{marker}\"]\n\
         [[agents]]\nid = \"coder\"\nrole = \"worker\"\n"
    );
    let rack = rack(&settings);
    assert_eq!(name_of_echo(&rack, &["--agent", "coder"]), "mcp__my-fake__echo");
    let tools = rack.run(&["tools", "--json", "--agent", "boss"]).json();
    assert_eq!(tools["tools"].as_array().map(Vec::len), Some(0), "{tools}");
    let list = rack.run(&["list", "--agent", "boss"]).ends_with(0);
    assert!(list.stderr.contains("this agent gets no tools"), "{list}");
    let call = rack.run(&["call", "my-fake/echo", "text=x", "--agent", "boss"]);
    assert_ne!(call.code, Some(0), "{call}");
    assert!(!work_file(&rack, "other", "").with_file_name(marker).exists());
}
