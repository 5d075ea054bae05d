//! A pseudo-terminal, and a user who types on it.

use std::{path::Path, process::Command};

use rexpect::{
    ReadUntil,
    error::Error,
    process::{Signal, WaitStatus},
    session::{Options, PtySession, spawn_with_options},
};

use crate::rack::Rack;

/// Milliseconds for anything to appear; nothing here takes a tenth of it on an idle machine.
const LIMIT: u64 = 30_000;

/// Asks a terminal where its cursor is (ECMA-48, DSR).
const WHERE: &str = "\u{1b}[6n";

/// Sets the size of its terminal and becomes the program: only the owner of a terminal can size it without `unsafe`.
const SIZED: &str = r#"stty cols "$1" rows 24 && shift && exec "$@""#;

/// A program on a terminal of its own, 24 lines high.
pub(crate) struct Terminal {
    session: PtySession,
    ended: bool,
}

impl Drop for Terminal {
    /// A shell does not end at `SIGTERM`.
    fn drop(&mut self) {
        if !self.ended {
            let _ = self.session.process_mut().kill(Signal::SIGKILL);
        }
    }
}

impl Terminal {
    /// The binary with these arguments on a terminal of 80 columns.
    pub(crate) fn run(rack: &Rack, args: &[&str]) -> Self {
        Self::start(rack, 80, Path::new(env!("CARGO_BIN_EXE_toolrack")), args)
    }

    /// Any program, in the environment of `rack`.
    pub(crate) fn start(rack: &Rack, columns: u16, program: &Path, args: &[&str]) -> Self {
        let mut command = Command::new("sh");
        command.args(["-c", SIZED, "sh", &columns.to_string()]).arg(program).args(args);
        rack.set_environment(&mut command);
        let options = Options::new().timeout_ms(Some(LIMIT));
        let session = spawn_with_options(command, options).unwrap_or_else(|error| panic!("no terminal: {error}"));
        Self { session, ended: false }
    }

    /// Waits until this is on the terminal; returns what came before it.
    pub(crate) fn expect(&mut self, text: &str) -> String {
        // It reads bytes, and takes each for a character.
        let bytes: String = text.bytes().map(char::from).collect();
        self.session.exp_string(&bytes).map(|before| decoded(&before)).unwrap_or_else(|error| gave_up(text, &error))
    }

    /// Waits until something that this expression describes is on the terminal; returns it, and not what came before.
    pub(crate) fn expect_match(&mut self, regex: &str) -> String {
        let found = self.session.exp_regex(regex).unwrap_or_else(|error| gave_up(regex, &error));
        decoded(&found.1)
    }

    /// Types this, as it is.
    pub(crate) fn type_in(&mut self, keys: &str) {
        self.session.send(keys).and_then(|_| self.session.flush()).unwrap();
    }

    /// Resizes the terminal, and sends the program `SIGWINCH`.
    pub(crate) fn resize(&self, columns: u16) {
        let owner = self.session.process().get_file_handle().unwrap();
        let sized = Command::new("stty").args(["cols", &columns.to_string()]).stdin(owner).status().unwrap();
        assert!(sized.success(), "no size: {sized}");
    }

    /// Waits until this is on the terminal, and tells the program meanwhile where its cursor is whenever it asks, as
    /// terminals do by themselves; returns what came before it.
    pub(crate) fn watch(&mut self, text: &str) -> String {
        let bytes: String = text.bytes().map(char::from).collect();
        let mut seen = String::new();
        loop {
            let wanted = vec![ReadUntil::String(WHERE.to_owned()), ReadUntil::String(bytes.clone())];
            let (before, found) = self.session.exp_any(wanted).unwrap_or_else(|error| gave_up(text, &error));
            seen += &before;
            if found == bytes {
                return decoded(&seen);
            }
            self.type_in("\u{1b}[12;1R");
        }
    }

    /// Everything from here to the end of the program, and its exit code.
    pub(crate) fn end(self) -> (String, i32) {
        self.end_answering(&[])
    }

    /// The same, and answers each of these questions when it comes.
    pub(crate) fn end_answering(mut self, answers: &[(&str, &str)]) -> (String, i32) {
        let mut rest = String::new();
        loop {
            let questions = answers.iter().map(|(question, _)| ReadUntil::String((*question).to_owned()));
            let wanted = questions.chain([ReadUntil::EOF]).collect();
            let (before, found) = self.session.exp_any(wanted).unwrap_or_else(|error| gave_up("the end", &error));
            rest += &before;
            rest += &found;
            let Some((_, answer)) = answers.iter().find(|(question, _)| *question == found) else {
                break;
            };
            self.type_in(answer);
        }
        self.ended = true;
        match self.session.process().wait().unwrap() {
            WaitStatus::Exited(_, code) => (decoded(&rest), code),
            other => panic!("it ended with {other:?} after {rest}"),
        }
    }
}

fn gave_up(wanted: &str, error: &Error) -> ! {
    panic!("waited for {wanted:?}: {error}")
}

fn decoded(text: &str) -> String {
    let bytes: Vec<u8> = text.chars().map(|character| u8::try_from(character).unwrap()).collect();
    String::from_utf8(bytes).unwrap_or_else(|error| panic!("{error}: {text:?}"))
}
