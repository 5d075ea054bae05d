//! What a Linux program needs from the system: its shared libraries and its glibc, as `readelf` shows them.

use std::path::Path;

use crate::report::{Step, Stop};
use crate::run::{capture, program};

/// The oldest glibc on which the programs run.
pub(crate) const OLDEST_GLIBC: (u32, u32) = (2, 17);

/// Returns the shared libraries that a program loads; none for a file that is not an ELF program, such as a script.
///
/// # Errors
/// When `readelf` cannot read the file.
pub(crate) fn libraries(path: &Path) -> Result<Vec<String>, Stop> {
    Ok(needed_libraries(&readelf(path, "--dynamic")?))
}

/// Checks that a program runs on [`OLDEST_GLIBC`].
///
/// # Errors
/// With the symbols that only a newer glibc has.
pub(crate) fn check_symbols(path: &Path) -> Step {
    let newer = newer_symbols(&readelf(path, "--dyn-syms")?);
    if newer.is_empty() {
        return Ok(());
    }
    let (major, minor) = OLDEST_GLIBC;
    let why = format!("{} needs more than glibc {major}.{minor} has: {}", path.display(), newer.join(", "));
    Err(Stop::Failed(why))
}

/// Checks that the loader protects a program: it places the program at a random address (PIE), and makes its tables of
/// addresses read-only before the program runs (`-z now`, `-z relro`). A file that is not an ELF program passes.
///
/// # Errors
/// Names the missing protections.
pub(crate) fn check_protected(path: &Path) -> Step {
    let dynamic = readelf(path, "--dynamic")?;
    let missing =
        if dynamic.is_empty() { Vec::new() } else { missing_protection(&dynamic, &readelf(path, "--segments")?) };
    if missing.is_empty() {
        return Ok(());
    }
    Err(Stop::Failed(format!("{} is built without {}", path.display(), missing.join(" and "))))
}

fn missing_protection(dynamic: &str, segments: &str) -> Vec<&'static str> {
    let flags = dynamic.lines().filter(|line| line.contains("(FLAGS_1)")).flat_map(str::split_whitespace);
    let flags: Vec<_> = flags.collect();
    let protections = [
        (flags.contains(&"PIE"), "a random address in memory (PIE)"),
        (flags.contains(&"NOW"), "addresses that are all resolved at its start (-z now)"),
        (segments.contains("GNU_RELRO"), "read-only tables of addresses (-z relro)"),
    ];
    protections.into_iter().filter(|(is_there, _)| !is_there).map(|(_, name)| name).collect()
}

fn readelf(path: &Path, part: &str) -> Result<String, Stop> {
    capture(program("readelf").env("LC_ALL", "C").args(["--wide", part]).arg(path))
}

fn needed_libraries(dynamic: &str) -> Vec<String> {
    let needed = dynamic.lines().filter(|line| line.contains("(NEEDED)"));
    needed.filter_map(|line| Some(line.split_once('[')?.1.split_once(']')?.0.to_owned())).collect()
}

/// Returns the symbols that need a newer glibc than [`OLDEST_GLIBC`].
fn newer_symbols(symbols: &str) -> Vec<String> {
    let versioned = symbols.lines().filter_map(|line| line.split_whitespace().find(|word| word.contains("@GLIBC_")));
    let is_newer = |name: &&str| {
        let version = name.split_once("GLIBC_").map_or("", |(_, version)| version);
        let mut numbers = version.split('.').map(|number| number.parse().unwrap_or(u32::MAX));
        (numbers.next().unwrap_or(u32::MAX), numbers.next().unwrap_or(u32::MAX)) > OLDEST_GLIBC
    };
    let mut newer: Vec<_> = versioned.filter(is_newer).map(ToOwned::to_owned).collect();
    newer.sort_unstable();
    newer.dedup();
    newer
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_without_a_protection_is_refused_with_its_name() {
        let flags = " 0x000000006ffffffb (FLAGS_1)            Flags: NOW PIE\n";
        let segments = "  GNU_RELRO      0x04a460 0x000000000004c460\n";
        assert!(missing_protection(flags, segments).is_empty());
        assert!(missing_protection(&flags.replace("NOW ", ""), segments)[0].contains("-z now"));
        assert!(missing_protection(&flags.replace(" PIE", ""), segments)[0].contains("PIE"));
        assert!(missing_protection(flags, "")[0].contains("-z relro"));
        assert!(check_protected(&std::env::current_exe().unwrap()).is_ok(), "rustc's own defaults");
    }

    #[test]
    fn symbols_of_a_newer_glibc_are_named() {
        let symbols = "
   Num:    Value          Size Type    Bind   Vis      Ndx Name
     1: 0000000000000000     0 FUNC    GLOBAL DEFAULT  UND getrandom@GLIBC_2.25 (5)
     2: 0000000000000000     0 FUNC    GLOBAL DEFAULT  UND read@GLIBC_2.2.5 (2)
     3: 0000000000000000     0 FUNC    GLOBAL DEFAULT  UND clock_gettime@GLIBC_2.17 (3)
     4: 0000000000000000     0 FUNC    WEAK   DEFAULT  UND gettid@GLIBC_2.30 (4)
     5: 0000000000000000     0 FUNC    WEAK   DEFAULT  UND new@GLIBC_3.0 (4)
     6: 0000000000000000     0 FUNC    WEAK   DEFAULT  UND secret@GLIBC_PRIVATE (4)
     7: 0000000000000000     0 NOTYPE  WEAK   DEFAULT  UND __gmon_start__
";
        let expected = ["getrandom@GLIBC_2.25", "gettid@GLIBC_2.30", "new@GLIBC_3.0", "secret@GLIBC_PRIVATE"];
        assert_eq!(newer_symbols(symbols), expected);
    }

    #[test]
    fn libraries_are_those_that_are_loaded() {
        let dynamic = "
 0x0000000000000001 (NEEDED)             Shared library: [libgcc_s.so.1]
 0x0000000000000001 (NEEDED)             Shared library: [libc.so.6]
 0x000000000000000c (INIT)               0x1000
";
        assert_eq!(needed_libraries(dynamic), ["libgcc_s.so.1", "libc.so.6"]);
    }
}
