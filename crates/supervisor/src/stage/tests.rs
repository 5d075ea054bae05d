use super::*;

fn words(line: &str) -> Vec<OsString> {
    line.split(' ').filter(|word| !word.is_empty()).map(OsString::from).collect()
}

#[test]
fn every_stage_survives_its_word_and_starts_this_program_again() {
    let both = [false, true];
    let mut stages =
        vec![Stage::Begin { supervisor_pid: 7 }, Stage::BeginWithoutNamespaces { supervisor_pid: i32::MAX }];
    for has_own_network in both {
        stages.push(Stage::NamespaceInit { keeper_pid: 8, has_own_network });
        stages.extend(both.map(|has_own_proc| Stage::Inside(Isolation { has_own_proc, has_own_network })));
    }
    for stage in stages {
        let command = stage.command(words("udp=yes -- server --flag"));
        assert_eq!(command[..2], ["/proc/self/exe", CONFINE].map(OsString::from));
        assert_eq!(Stage::from_word(&command[2]), Some(stage));
        assert_eq!(command[3..], words("udp=yes -- server --flag"));
    }
}

#[test]
fn an_unknown_stage_is_refused() {
    use std::os::unix::ffi::OsStrExt;
    for word in ["", "begin", "begin:", "begin:7", "begin:x:0", "begin:99999999999:0", "Begin:7:0", "last:7:0", ":7:0"]
    {
        assert_eq!(Stage::from_word(OsStr::new(word)), None, "{word:?}");
    }
    assert_eq!(Stage::from_word(OsStr::from_bytes(b"begin:\xff:0")), None);
}

#[test]
fn the_command_of_a_confined_server_begins_after_the_first_separator() {
    let all = words("confined=yes read=/x -- /bin/server run -- read=/");
    let command = Command::from_words(&all).ok().unwrap();
    assert_eq!(command.program, Path::new("/bin/server"));
    assert_eq!(command.server_command, words("/bin/server run -- read=/"));
    assert_eq!(command.confinement.read, [Path::new("/x")], "the description for the server grants nothing");
    assert_eq!(command.words, all);
}

#[test]
fn a_command_that_is_not_understood_is_not_run() {
    for (line, why) in [
        ("", "no command"),
        ("confined=yes", "no command"),
        ("confined=yes --", "no command"),
        ("confined=yes raed=/ -- server", "its confinement cannot be parsed"),
        ("/bin/server -- x", "its confinement cannot be parsed"),
        ("connect=http -- server", "its confinement cannot be parsed"),
    ] {
        match Command::from_words(&words(line)) {
            Err(Failure::Refused(refused)) => assert_eq!(refused, why, "{line:?}"),
            _ => panic!("{line:?} is run"),
        }
    }
}

#[test]
fn a_server_has_an_empty_network_only_when_it_may_use_none_and_asks_names_over_tcp_when_it_has_no_datagrams() {
    for (line, has_own_network, by_tcp) in [
        ("connect= bind=", true, false),
        ("connect= bind= udp=yes", false, false),
        ("connect=443 bind=", false, true),
        ("connect= bind=8080", false, true),
        ("connect=", false, true),
        ("bind=", false, true),
        ("udp=yes", false, false),
        ("confined=yes", false, true),
    ] {
        let all = words(&format!("{line} -- server"));
        let command = Command::from_words(&all).ok().unwrap();
        assert_eq!(command.uses_no_network(), has_own_network, "{line}");
        assert_eq!(command.resolves_by_tcp(), by_tcp, "{line}");
    }
}
