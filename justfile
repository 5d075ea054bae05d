# Short names for what is done every day; `cargo xtask help` tells what is behind them.

# This list.
default:
    @just --list

# Everything CI does: install, check, fuzz, count, test.
all *ARGS:
    cargo xtask test {{ARGS}}

# The tests, with what is installed already.
test *ARGS:
    cargo xtask test --quick {{ARGS}}

# Formatting, lints, documentation.
check:
    cargo xtask check

fmt:
    cargo fmt --all

# Fuzz all targets, or one: just fuzz framer --seconds 600
fuzz *ARGS:
    cargo xtask fuzz {{ARGS}}

# Toolrack beside its peers, in one table.
bench *ARGS:
    cargo xtask bench {{ARGS}}

# What a call, a tool, a server and a cold start cost, against what was accepted: just steady --accept 'why'
steady *ARGS:
    cargo xtask steady {{ARGS}}

# What one of 1,000 servers or 100,000 tools costs; does memory grow? just growth --soak 3600
growth *ARGS:
    cargo xtask growth {{ARGS}}

# What users install, into target/dist/release; just dist --check installs and runs each form.
dist *ARGS:
    cargo xtask dist {{ARGS}}

# The crates as packages: what is in them, which feature sets build, what a small client needs.
published:
    cargo xtask published

# Licences, sources, forbidden dependencies.
deny:
    cargo xtask deny

# The command line, in release: just run list
run *ARGS:
    cargo run --release -- {{ARGS}}
