//! The allowed dependencies between crates ("arrows" between "rooms"). ARCHITECTURE.md draws them; a new arrow is a
//! decision, which has to be made there and here.

use std::collections::BTreeSet;

use crate::{metadata, none_of};

/// Each room (a crate of the workspace) and the rooms that it may use. A room uses only rooms before it in this list.
const ROOMS: &[(&str, &[&str])] = &[
    ("toolrack-supervisor", &[]),
    ("toolrack-host", &["toolrack-supervisor"]),
    ("toolrack-agent", &["toolrack-host"]),
    ("toolrack-auth", &["toolrack-host"]),
    ("toolrack-code", &["toolrack-host"]),
    ("toolrack-otel", &["toolrack-host"]),
    ("toolrack-rig", &["toolrack-host"]),
    ("toolrack-config", &["toolrack-host"]),
    ("toolrack-store", &["toolrack-host", "toolrack-agent"]),
    ("toolrack-team", &["toolrack-host", "toolrack-store"]),
    ("toolrack-daemon", &["toolrack-host", "toolrack-agent", "toolrack-config", "toolrack-store", "toolrack-team"]),
    (
        "toolrack",
        &[
            "toolrack-supervisor",
            "toolrack-host",
            "toolrack-agent",
            "toolrack-auth",
            "toolrack-code",
            "toolrack-otel",
            "toolrack-config",
            "toolrack-store",
            "toolrack-team",
            "toolrack-daemon",
        ],
    ),
    ("toolrack-testkit", &["toolrack-host"]),
    ("toolrack-bench", &["toolrack-host", "toolrack-agent"]),
    ("xtask", &[]),
];

/// The crate that is only for tests: others may have it as a dev-dependency only.
const ONLY_FOR_TESTS: &str = "toolrack-testkit";

/// Third-party crates that only some rooms may use.
const OWNED: &[(&str, &[&str])] = &[
    ("axum", &["toolrack-bench", "toolrack-daemon", "toolrack-team", "toolrack-testkit"]),
    ("clap", &["toolrack"]),
    ("command-fds", &["toolrack-host"]),
    ("jsonc-parser", &["toolrack-config"]),
    ("jsonwebtoken", &["toolrack-team"]),
    ("maud", &["toolrack-team"]),
    ("notify", &["toolrack-config"]),
    ("oauth2", &["toolrack-team"]),
    ("opentelemetry", &["toolrack-otel"]),
    (
        "reqwest",
        &[
            "toolrack-host",
            "toolrack-agent",
            "toolrack-auth",
            "toolrack-daemon",
            "toolrack-team",
            "toolrack-testkit",
            "toolrack-bench",
        ],
    ),
    // The host uses it only in its tests: a program that embeds the host may have another version.
    ("rmcp", &["toolrack-host", "toolrack-auth", "toolrack", "toolrack-daemon", "toolrack-testkit", "toolrack-bench"]),
    ("rig-core", &["toolrack-rig"]),
    ("rquickjs", &["toolrack-code"]),
    ("sqlx", &["toolrack-store"]),
    // Every program that counts allocations is a benchmark.
    ("stats_alloc", &["toolrack-bench"]),
    ("toml_edit", &["toolrack-config", "toolrack-team", "toolrack-bench", "xtask"]),
];

struct Arrow {
    from: String,
    to: String,
    only_for_tests: bool,
}

fn arrows() -> Vec<Arrow> {
    let metadata = metadata();
    let mut arrows = Vec::new();
    for package in metadata["packages"].as_array().unwrap() {
        let from = package["name"].as_str().unwrap();
        for dependency in package["dependencies"].as_array().unwrap() {
            arrows.push(Arrow {
                from: from.to_owned(),
                to: dependency["name"].as_str().unwrap().to_owned(),
                only_for_tests: dependency["kind"] == "dev",
            });
        }
    }
    arrows
}

fn may_use(from: &str) -> &'static [&'static str] {
    ROOMS.iter().find(|(room, _)| *room == from).map_or(&[], |(_, may)| may)
}

#[test]
fn every_crate_is_a_room_of_the_house() {
    let metadata = metadata();
    let names = metadata["packages"].as_array().unwrap().iter().map(|package| package["name"].as_str().unwrap());
    let unknown: Vec<_> =
        names.filter(|name| !ROOMS.iter().any(|(room, _)| room == name)).map(ToOwned::to_owned).collect();
    none_of(&unknown, "a new crate needs a place in ARCHITECTURE.md and in this test:");
}

#[test]
fn arrows_point_down() {
    let rooms: BTreeSet<_> = ROOMS.iter().map(|(room, _)| *room).collect();
    let wrong: Vec<_> = arrows()
        .into_iter()
        .filter(|arrow| rooms.contains(arrow.to.as_str()) && !may_use(&arrow.from).contains(&arrow.to.as_str()))
        .filter(|arrow| !(arrow.only_for_tests && arrow.to == ONLY_FOR_TESTS))
        .map(|arrow| format!("{} -> {}", arrow.from, arrow.to))
        .collect();
    none_of(&wrong, "these arrows do not point down (ARCHITECTURE.md):");
}

#[test]
fn crates_from_outside_stay_in_the_rooms_that_own_them() {
    let owners = |name: &str| OWNED.iter().find(|(owned, _)| *owned == name).map(|(_, owners)| *owners);
    let wrong: Vec<_> = arrows()
        .into_iter()
        // A test may use such a crate, for example to damage a database.
        .filter(|arrow| !arrow.only_for_tests)
        .filter(|arrow| owners(&arrow.to).is_some_and(|owners| !owners.contains(&arrow.from.as_str())))
        .map(|arrow| format!("{} -> {} (only {:?} may)", arrow.from, arrow.to, owners(&arrow.to).unwrap_or_default()))
        .collect();
    none_of(&wrong, "only some crates may use these:");
}

#[test]
fn the_arrows_of_the_rooms_make_no_circle() {
    for (at, (room, may)) in ROOMS.iter().enumerate().filter(|(_, (room, _))| *room != ONLY_FOR_TESTS) {
        for lower in *may {
            let lower_at = ROOMS.iter().position(|(other, _)| other == lower).unwrap();
            assert!(lower_at < at, "{lower} must stand above {room} in the table");
        }
    }
}
