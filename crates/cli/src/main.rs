//! The program `toolrack`. What it does is in a library, because Cargo compiles a library while it still translates those
//! that it uses, but a program only after them.

use std::process::ExitCode;

fn main() -> ExitCode {
    toolrack_cli::main()
}
