//! The scripted MCP server as a program: see `toolrack_testkit::fake`.

use std::process::ExitCode;

fn main() -> ExitCode {
    toolrack_testkit::fake::main(std::env::args().skip(1))
}
