//! Which program supervises a stdio server.

use std::{
    fs,
    path::{Path, PathBuf},
};

use serde_json::json;

use crate::rack::{Rack, fake};

/// The binary in a folder without its companion.
fn alone(rack: &Rack) -> PathBuf {
    let binary = rack.home.root().join("alone");
    fs::hard_link(env!("CARGO_BIN_EXE_toolrack"), &binary)
        .or_else(|_| fs::copy(env!("CARGO_BIN_EXE_toolrack"), &binary).map(drop))
        .unwrap();
    binary
}

/// The program that started the server, if `binary` runs it.
fn parent_of_a_server(rack: &Rack, binary: &Path) -> PathBuf {
    let note = rack.home.root().join("parent");
    let script = format!("readlink /proc/$PPID/exe > {}", note.display());
    rack.configure(&[("note", json!({ "command": "sh", "args": ["-c", script] }))]);
    let mut command = rack.home.command(binary);
    command.args(["list"]).output().unwrap();
    fs::read_to_string(note).unwrap().trim_end().into()
}

#[test]
fn the_small_program_beside_the_binary_watches_over_a_server() {
    let parent = parent_of_a_server(&Rack::new(), Path::new(env!("CARGO_BIN_EXE_toolrack")));
    assert_eq!(parent, Path::new(env!("CARGO_BIN_EXE_toolrack-supervisor")).canonicalize().unwrap());
}

#[test]
fn a_binary_alone_watches_over_its_servers_itself() {
    let rack = Rack::new();
    let alone = alone(&rack);
    assert_eq!(parent_of_a_server(&rack, &alone), alone.canonicalize().unwrap());
    rack.configure(&[("fake", fake(&[]))]);
    let output = rack.home.command(&alone).args(["call", "fake/echo", "text=hello"]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn the_small_program_does_nothing_without_an_order() {
    let output = Rack::new().home.command(env!("CARGO_BIN_EXE_toolrack-supervisor")).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
}
