//! Asks the linker for short relocations where they can be read.

#![expect(clippy::disallowed_methods, reason = "cargo tells a build script what it builds in variables")]

use std::{env, process::Command};

/// The first glibc that reads packed relocations.
const GLIBC: (u32, u32) = (2, 36);

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // A position-independent program has a relocation of 24 bytes for each of its fifty thousand pointers. Packed
    // (RELR), they take a hundredth of that, and the program starts sooner.
    if is("PROFILE", "release") && is_for_this_machine() && glibc().is_some_and(|found| found >= GLIBC) {
        println!("cargo::rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    }
}

fn is(name: &str, value: &str) -> bool {
    env::var(name).is_ok_and(|found| found == value)
}

/// Whether the program will run with this machine's glibc. Not with a linker that cargo was given: that of
/// `cargo xtask dist` links against an old glibc, which cannot read packed relocations.
fn is_for_this_machine() -> bool {
    let links_with_the_default = env::var_os("RUSTC_LINKER").is_none();
    links_with_the_default
        && is("CARGO_CFG_TARGET_OS", "linux")
        && is("CARGO_CFG_TARGET_ENV", "gnu")
        && env::var("HOST") == env::var("TARGET")
}

/// The version of this machine's glibc: `glibc 2.36`.
fn glibc() -> Option<(u32, u32)> {
    let output = Command::new("getconf").arg("GNU_LIBC_VERSION").output().ok()?;
    let output = String::from_utf8(output.stdout).ok()?;
    let (major, minor) = output.trim().strip_prefix("glibc ")?.split_once('.')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}
