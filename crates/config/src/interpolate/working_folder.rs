//! Prepares the working folder and the `PATH` of a child (the process of a server).

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use toolrack_host::{
    ChildPlan, ResolveError,
    spec::{Stdio, absolute_path},
};

/// Variables that name the working folder of the program that set them.
const WORKING_FOLDER_VARIABLES: &[&str] = &["PWD", "OLDPWD", "INIT_CWD"];

/// Gives the child a `PATH` of absolute folders. Removes variables that name another working folder than the child's,
/// except those that the entry sets.
pub(super) fn clean_environment(spec: &Stdio, plan: &mut ChildPlan) {
    for (name, value) in &mut plan.env {
        if name == "PATH"
            && let Some(path) = absolute_path(value)
        {
            *value = path;
        }
    }
    if plan.cwd.is_some() {
        plan.env.retain(|(name, _)| {
            !WORKING_FOLDER_VARIABLES.iter().any(|variable| name == variable && !spec.env.contains_key(*variable))
        });
    }
}

/// Creates the working folder `cwd` of a server if it is directly below `own_folders`, with access only for the user.
/// Returns its real path. Follows links on the way to `own_folders`, because no server can create any there.
pub(super) fn create_own_folder(cwd: &Path, own_folders: &Path) -> Result<PathBuf, ResolveError> {
    if cwd.parent() != Some(own_folders) {
        return Ok(cwd.to_owned());
    }
    let result =
        create_private_folder(own_folders).and_then(|()| create_private_folder(cwd)).and_then(|()| cwd.canonicalize());
    result.map_err(|error| {
        ResolveError::new(format!("its working folder {} cannot be made: {}", cwd.display(), error.kind()))
    })
}

/// Creates a folder that only the user can access. If it exists and belongs to another user, setting its mode is an
/// error.
fn create_private_folder(folder: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)?;
    let metadata = folder.symlink_metadata()?;
    if !metadata.is_dir() {
        return Err(io::ErrorKind::NotADirectory.into());
    }
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        if metadata.permissions().mode() & 0o077 != 0 {
            fs::set_permissions(folder, fs::Permissions::from_mode(0o700))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(unix)]
    #[test]
    fn the_folder_of_a_server_is_the_users_alone() {
        use std::os::unix::fs::PermissionsExt;
        let disk = tempfile::tempdir().unwrap();
        let own = disk.path().join("data/cwd");
        fs::create_dir_all(own.join("open")).unwrap();
        fs::set_permissions(own.join("open"), fs::Permissions::from_mode(0o777)).unwrap();
        std::os::unix::fs::symlink(disk.path(), own.join("link")).unwrap();
        for name in ["new", "open"] {
            create_own_folder(&own.join(name), &own).unwrap();
            assert_eq!(own.join(name).metadata().unwrap().permissions().mode() & 0o777, 0o700, "{name}");
        }
        assert!(create_own_folder(&own.join("link"), &own).is_err());
        create_own_folder(&disk.path().join("elsewhere"), &own).unwrap();
        assert!(!disk.path().join("elsewhere").exists());
    }
}
