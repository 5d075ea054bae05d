//! How zsh asks, and what it is told.
//!
//! The answer is the library's; its script puts a blank behind `path=`, and works only where it is sourced. This one
//! leaves the line open there, and works as a file in `fpath` as well.

use std::{
    ffi::OsString,
    io::{self, Write},
    path::Path,
};

use clap_complete::env::{self, EnvCompleter};

const SCRIPT: &str = r#"#compdef NAME
_NAME() {
    local -a lines open closed
    local line value
    lines=("${(@f)$(VARIABLE=zsh _CLAP_IFS=$'\n' INDEX=$((CURRENT - 1)) PROGRAM -- "${words[@]}" 2>/dev/null)}")
    for line in $lines; do
        # A colon ends the word, unless there is a backslash before it.
        value=${${line//\\:/}%%:*}
        if [[ $value == *[=/] ]]; then open+=("$line"); else closed+=("$line"); fi
    done
    (($#open)) && _describe -V values open -S ''
    (($#closed)) && _describe -V values closed
}
if [[ $funcstack[1] == _NAME ]]; then _NAME "$@"; else compdef _NAME NAME; fi
"#;

#[derive(Clone, Copy, Debug)]
pub(super) struct Zsh;

impl EnvCompleter for Zsh {
    fn name(&self) -> &'static str {
        "zsh"
    }

    fn is(&self, name: &str) -> bool {
        name == self.name()
    }

    fn write_registration(
        &self,
        var: &str,
        name: &str,
        _bin: &str,
        completer: &str,
        buf: &mut dyn Write,
    ) -> io::Result<()> {
        let script = SCRIPT
            .replace("VARIABLE", var)
            .replace("INDEX", super::INDEX)
            .replace("NAME", name)
            .replace("PROGRAM", &shell_words::quote(completer));
        buf.write_all(script.as_bytes())
    }

    fn write_complete(
        &self,
        cmd: &mut clap::Command,
        args: Vec<OsString>,
        current_dir: Option<&Path>,
        buf: &mut dyn Write,
    ) -> io::Result<()> {
        env::Zsh.write_complete(cmd, args, current_dir, buf)
    }
}
