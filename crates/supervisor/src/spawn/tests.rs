use std::io::{Read, pipe};
use std::os::fd::AsRawFd;

use nix::sys::signal::{SigmaskHow, Signal, pthread_sigmask};
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::getpgrp;

use super::*;

fn words(words: &[&str]) -> Vec<OsString> {
    words.iter().map(OsString::from).collect()
}

/// What a script that is started with `variables` prints.
fn output_of(script: &str, variables: &[(&str, &str)]) -> String {
    let variables: Vec<_> = variables.iter().map(|(name, value)| (name.into(), value.into())).collect();
    let (mut read_end, write_end) = pipe().unwrap();
    let child = start(&words(&["/bin/sh", "-c", script]), &variables, &[(write_end.as_raw_fd(), 1)]).unwrap();
    drop(write_end);
    let mut output = String::new();
    read_end.read_to_string(&mut output).unwrap();
    assert_eq!(waitpid(child, None).unwrap(), WaitStatus::Exited(child, 0));
    output
}

#[test]
fn a_server_gets_its_variables_and_none_of_this_process() {
    assert!(env::var_os("CARGO_PKG_NAME").is_some());
    assert_eq!(output_of("echo \"$A|$B|$CARGO_PKG_NAME|$HOME\"", &[("A", "1=2"), ("B", "x y")]), "1=2|x y||\n");
}

#[test]
fn a_server_begins_with_no_signal_blocked_or_ignored() {
    let mut blocked = SigSet::empty();
    blocked.add(Signal::SIGTERM);
    blocked.add(Signal::SIGCHLD);
    pthread_sigmask(SigmaskHow::SIG_BLOCK, Some(&blocked), None).unwrap();
    // Rust ignores SIGPIPE in every program.
    let output = output_of(
        "while read -r name value; do case $name in SigBlk:|SigIgn:) echo $value;; esac; done < /proc/self/status",
        &[],
    );
    pthread_sigmask(SigmaskHow::SIG_UNBLOCK, Some(&blocked), None).unwrap();
    // 32 and 33 are the C library's own.
    let kept = 3 << 31;
    let masks: Vec<u64> = output.lines().map(|mask| u64::from_str_radix(mask, 16).unwrap() & !kept).collect();
    assert_eq!(masks, [0, 0], "{output}");
}

#[test]
fn a_server_leads_a_group_of_its_own() {
    let output = output_of("read -r pid name state parent group rest < /proc/self/stat; echo $$ $group", &[]);
    let (process, group) = output.trim().split_once(' ').unwrap();
    assert_eq!(process, group);
    assert_ne!(group, getpgrp().to_string());
}

#[test]
fn a_server_inherits_only_the_passed_descriptors() {
    let (reader, writer) = pipe().unwrap();
    let command = words(&["/bin/sh", "-c", "echo passed >&7; [ -e /proc/self/fd/8 ]"]);
    let child = start(&command, &[], &[(writer.as_raw_fd(), 7)]).unwrap();
    assert_eq!(waitpid(child, None).unwrap(), WaitStatus::Exited(child, 1));
    drop(writer);
    let mut text = String::new();
    { reader }.read_to_string(&mut text).unwrap();
    assert_eq!(text, "passed\n");
}

#[test]
fn an_impossible_command_line_is_refused_before_anything_starts() {
    let nul = OsString::from_vec(b"a\0b".to_vec());
    assert_eq!(start(&[], &[], &[]), Err(Errno::EINVAL));
    assert_eq!(start(std::slice::from_ref(&nul), &[], &[]), Err(Errno::EINVAL));
    assert_eq!(start(&["/bin/true".into(), nul.clone()], &[], &[]), Err(Errno::EINVAL));
    assert_eq!(start(&words(&["/bin/true"]), &[("A".into(), nul.clone())], &[]), Err(Errno::EINVAL));
    assert_eq!(start(&words(&["/bin/true"]), &[(nul, "1".into())], &[]), Err(Errno::EINVAL));
    assert_eq!(start(&words(&["/no/such/program"]), &[], &[]), Err(Errno::ENOENT));
    assert_eq!(start(&words(&["/etc"]), &[], &[]), Err(Errno::EACCES));
}
