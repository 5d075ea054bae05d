//! How bash asks, and what it is told.
//!
//! The library's own script has three faults that matter here: bash breaks words at `=` and `:` (so that `path=` and
//! `--mcp-config=FILE` are three words), names of files are put into the line without quotes, and what is offered is
//! expanded like a glob. This script puts the words together again, leaves names of files to bash, and expands nothing.

use std::{
    ffi::OsString,
    io::{self, Write},
    path::Path,
};

use clap_complete::{engine, env::EnvCompleter};

/// Works in bash 3.2 and later.
const SCRIPT: &str = r#"_NAME() {
    local line=${COMP_LINE:0:COMP_POINT} word='' before='' words=() i
    for ((i = 0; i < COMP_CWORD; i++)); do
        word=${COMP_WORDS[i]}
        if ((i > 0)) && [[ $line != [[:space:]]* ]]; then
            words[${#words[@]} - 1]+=$word
        else
            words+=("$word")
        fi
        line=${line#"${line%%[![:space:]]*}"}
        line=${line#"$word"}
    done
    if ((i > 0)) && [[ $line != [[:space:]]* ]]; then
        word=${words[${#words[@]} - 1]}$line
        words[${#words[@]} - 1]=$word
    else
        word=${line#"${line%%[![:space:]]*}"}
        words+=("$word")
    fi
    # What bash itself takes for the word begins after the last = or :, and only that is replaced.
    before=${word%"$2"}
    COMPREPLY=()
    while IFS= read -r word; do
        COMPREPLY+=("${word#"$before"}")
    done < <(VARIABLE=bash PROGRAM -- "${words[@]}" 2>/dev/null)
    if [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == *[=/:] ]]; then
        compopt -o nospace 2>/dev/null
    fi
}
complete -o bashdefault -o default -o nosort -F _NAME NAME 2>/dev/null ||
    complete -o bashdefault -o default -F _NAME NAME
"#;

#[derive(Clone, Copy, Debug)]
pub(super) struct Bash;

impl EnvCompleter for Bash {
    fn name(&self) -> &'static str {
        "bash"
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
        let script =
            SCRIPT.replace("VARIABLE", var).replace("NAME", name).replace("PROGRAM", &shell_words::quote(completer));
        buf.write_all(script.as_bytes())
    }

    fn write_complete(
        &self,
        cmd: &mut clap::Command,
        args: Vec<OsString>,
        current_dir: Option<&Path>,
        buf: &mut dyn Write,
    ) -> io::Result<()> {
        let index = args.len().saturating_sub(1);
        for candidate in engine::complete(cmd, args, index, current_dir)? {
            writeln!(buf, "{}", candidate.get_value().to_string_lossy())?;
        }
        Ok(())
    }
}
