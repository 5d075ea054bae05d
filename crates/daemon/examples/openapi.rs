//! Prints the description of the control API: `cargo run -p toolrack-daemon --example openapi > docs/openapi.json`.

#![expect(clippy::print_stdout, reason = "it is what this program is for")]

fn main() {
    println!("{}", toolrack_daemon::openapi());
}
