use std::fs;
use std::os::unix::fs::PermissionsExt;

use super::*;

fn words(line: &str) -> Vec<OsString> {
    line.split(' ').map(OsString::from).collect()
}

fn variables(line: &str, environment: &[(&str, &str)], has_no_namespaces: bool) -> Vec<(String, String)> {
    let all = words(&format!("{line} -- server"));
    let command = Command::from_words(&all).ok().unwrap();
    let environment = environment.iter().map(|(name, value)| (name.into(), value.into())).collect();
    let text = |text: OsString| text.into_string().unwrap();
    command
        .with_resolver_option(environment, has_no_namespaces)
        .into_iter()
        .map(|(name, value)| (text(name), text(value)))
        .collect()
}

#[test]
fn a_server_without_namespaces_looks_names_up_over_tcp_where_it_has_no_datagrams() {
    let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let one = [("PATH", "/bin")];
    assert_eq!(variables("connect=443", &one, true), [pair("PATH", "/bin"), pair("RES_OPTIONS", " use-vc")]);
    // The server's own options stay.
    let own = [("RES_OPTIONS", "ndots:2"), ("PATH", "/bin")];
    assert_eq!(variables("connect=443", &own, true), [pair("PATH", "/bin"), pair("RES_OPTIONS", "ndots:2 use-vc")]);
    for (line, has_no_namespaces) in [("connect=443", false), ("udp=yes", true), ("connect= bind=", true)] {
        assert_eq!(variables(line, &one, has_no_namespaces), [pair("PATH", "/bin")], "{line} {has_no_namespaces}");
    }
}

#[test]
fn the_limit_of_tasks_grows_with_the_processes_of_a_server_and_exceeds_the_running_ones() {
    let (one, many) = (thread_limit(1), thread_limit(1001));
    assert!(one > THREADS_PER_PROCESS, "{one}: the limit also counts the other tasks of this user");
    // The number of other tasks changes between the two calls.
    let grown = many.abs_diff(one);
    assert!(grown.abs_diff(1000 * THREADS_PER_PROCESS) < 8000, "{one} {many}");
    assert!(thread_limit(u32::MAX) > u64::from(u32::MAX), "no overflow");
}

#[test]
fn a_servers_own_folder_is_closed_to_other_users() {
    let root = tempfile::tempdir().unwrap();
    let own = root.path().join("homes/server");
    create_own_folder(&own).unwrap();
    create_own_folder(&own).unwrap();
    for folder in [own.clone(), own.join("tmp")] {
        assert_eq!(fs::metadata(&folder).unwrap().permissions().mode() & 0o777, 0o700, "{}", folder.display());
    }
    fs::write(root.path().join("file"), "").unwrap();
    assert!(create_own_folder(&root.path().join("file")).is_err());
}
