//! `cargo xtask dist` makes every package that users install, from one optimised build.
//!
//! It stages the programs for each target in a folder that is laid out as a prefix, and makes each package from that
//! folder alone. So the release workflow builds on many machines and packs on one, which needs only Debian's tools.

mod archive;
mod check;
mod checksums;
mod deb;
mod file_server;
mod homebrew;
mod image;
mod installer;
mod needed;
mod npm;
mod plan;
mod readme;
mod released;
mod sbom;
mod staged;
mod target;
mod tools;
mod wheel;
mod winget;

use std::fs;
use std::path::{Path, PathBuf};

pub(crate) use plan::Plan;

use crate::report::{Report, Step, Stop};
use crate::run::{failed, root};
use released::Released;
use staged::{PROGRAMS, Staged};
use target::Target;

/// Makes everything that the plan asks for. If a step fails, the later steps go on without its packages.
pub(crate) fn run(report: &mut Report, plan: &Plan) {
    if plan.only_build {
        report.step("programs", || copy_built(plan));
        return;
    }
    let mut outcome = None;
    report.step("programs and their pages", || {
        outcome = Some(stage(plan)?);
        Ok(())
    });
    let Some((staged, released)) = outcome else { return };
    report.step("archives and installer", || pack_archives(&staged, &released));
    report.step("zip and manifest for winget", || winget::write_for(&staged, &released));
    report.step("symbols of glibc 2.17 at most", || check_glibc(&staged));
    report.step("protected by the loader", || on_linux(&staged, needed::check_protected));
    let mut packages = check::Packages::default();
    report.step("packages for npm", || {
        packages.npm = npm::pack(&staged, &root().join("target/dist/npm"), &released)?;
        Ok(())
    });
    report.step("wheels", || {
        let folder = root().join("target/dist/python");
        packages.wheels =
            staged.iter().map(|staged| wheel::pack(staged, &folder, &released)).collect::<Result<_, _>>()?;
        Ok(())
    });
    report.step("packages for Debian", || {
        let folder = root().join("target/dist/debian");
        let packed =
            staged.iter().map(|staged| deb::pack(staged, &folder, &released)).collect::<Result<Vec<_>, _>>()?;
        packages.debian = packed.into_iter().flatten().collect();
        Ok(())
    });
    report.step("image", || {
        let folder = root().join("target/dist/image");
        let built =
            staged.iter().map(|staged| image::build(staged, &folder, &released)).collect::<Result<Vec<_>, _>>()?;
        packages.images = built.into_iter().flatten().collect();
        Ok(())
    });
    report.step("bill of materials", || sbom::write_for(&released));
    report.step("checksums", || checksums::write_for(&released));
    println!("   {}", released.folder.display());
    if plan.check {
        check::run(report, &packages, &released);
    }
}

/// Empties the release folder, and stages the programs for each target.
fn stage(plan: &Plan) -> Result<(Vec<Staged>, Released), Stop> {
    let released = Released::of_this_tree()?;
    if released.folder.exists() {
        fs::remove_dir_all(&released.folder).map_err(failed("empty", &released.folder))?;
    }
    fs::create_dir_all(&released.folder).map_err(failed("make", &released.folder))?;
    let built = plan.built()?;
    let runnable = runnable_folder(&built)?;
    let mut all_staged = Vec::new();
    for (target, folder) in &built {
        let staged = Staged::of_programs(target, folder, root().join("target/dist/stage").join(target.triple))?;
        staged.add_manual_and_completions(&runnable)?;
        all_staged.push(staged);
    }
    Ok((all_staged, released))
}

/// Returns the folder of the programs that run on this machine. Only these can write the manual and the completions.
fn runnable_folder(built: &[(&'static Target, PathBuf)]) -> Result<PathBuf, Stop> {
    let this_machine = target::here()?;
    let folder = built.iter().find(|(target, _)| *target == this_machine).map(|(_, folder)| folder.clone());
    folder.ok_or_else(|| {
        Stop::Failed(format!(
            "the program for {} writes the manual: name its folder with --programs",
            this_machine.triple
        ))
    })
}

fn pack_archives(staged: &[Staged], released: &Released) -> Step {
    let packed: Result<Vec<_>, Stop> =
        staged.iter().map(|staged| Ok((staged.target, archive::pack(staged, released)?))).collect();
    let packed = packed?;
    installer::write_for(&packed, released)?;
    homebrew::write_for(&packed, released)
}

/// Checks that the programs for Linux need no newer glibc than the wheels, the Debian package and the installer
/// promise.
fn check_glibc(staged: &[Staged]) -> Step {
    on_linux(staged, needed::check_symbols)
}

/// Runs `check` on each program for Linux.
fn on_linux(staged: &[Staged], check: impl Fn(&Path) -> Step) -> Step {
    let linux = staged.iter().filter(|staged| staged.target.is_linux());
    linux.flat_map(|staged| PROGRAMS.iter().map(|name| staged.program(name))).try_for_each(|path| check(&path))
}

/// Builds the programs, and copies them to `target/dist/built`. From there, the release workflow copies them to the
/// machine that packs.
fn copy_built(plan: &Plan) -> Step {
    for (target, folder) in plan.built()? {
        for name in PROGRAMS {
            let file = target.file_of(name);
            let copy = root().join("target/dist/built").join(target.triple).join(&file);
            staged::copy_file(&folder.join(&file), &copy, 0o755)?;
        }
    }
    Ok(())
}
