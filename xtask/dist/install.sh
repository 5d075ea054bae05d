#!/bin/sh
# Installs Toolrack @VERSION@ into ~/.local, or into the folder in TOOLRACK_PREFIX:
#
#   curl -fsSL @BASE@/install.sh | sh
#
# It downloads one archive from TOOLRACK_BASE_URL (@BASE@),
# compares it with the hash below, tries the program in it, and only then puts anything into place. It needs no root, and
# changes no file of a shell.
set -eu

version='@VERSION@'
base=${TOOLRACK_BASE_URL:-'@BASE@'}
prefix=${TOOLRACK_PREFIX:-${HOME:?"error: HOME is not set; set it, or TOOLRACK_PREFIX"}/.local}
case $prefix in
/*) ;;
*) prefix=$PWD/$prefix ;;
esac
# Each kind of machine, and the hash of its archive.
hashes='@HASHES@'

state='Nothing was installed.'

fail() {
    printf 'error: %s\n' "$1" >&2
    [ $# -lt 2 ] || printf 'hint: %s\n' "$2" >&2
    printf '%s\n' "$state" >&2
    exit 1
}

has() {
    command -v "$1" >/dev/null 2>&1
}

# The kind of this machine, as the archives name it.
target() {
    case $(uname -s) in
    Linux) system=unknown-linux-gnu ;;
    Darwin) system=apple-darwin ;;
    *) fail "there is no archive for $(uname -s)" 'npm, pip and cargo may have Toolrack for it' ;;
    esac
    case $(uname -m) in
    x86_64 | amd64) processor=x86_64 ;;
    aarch64 | arm64) processor=aarch64 ;;
    *) fail "there is no archive for the processor $(uname -m)" 'build it: cargo install --git @REPOSITORY@ toolrack' ;;
    esac
    printf '%s-%s' "$processor" "$system"
}

# $1 into the file $2.
download() {
    if has curl; then
        curl --fail --silent --show-error --location --output "$2" "$1"
    elif has wget; then
        wget --quiet --tries=1 --output-document="$2" "$1"
    else
        fail 'neither curl nor wget is there to download with' 'install one of them'
    fi
}

# The SHA-256 of the file $1.
hash_of() {
    if has sha256sum; then
        sha256sum <"$1" | cut -d ' ' -f 1
    elif has shasum; then
        shasum -a 256 <"$1" | cut -d ' ' -f 1
    elif has openssl; then
        openssl dgst -sha256 -r <"$1" | cut -d ' ' -f 1
    else
        fail 'there is neither sha256sum, shasum nor openssl to check the archive with' 'install one of them'
    fi
}

# Calls the command $1 with each installed file, until it fails.
each_file() {
    while IFS= read -r file; do
        "$1" "$prefix/$file" "$work/$name/$file" || return
    done <"$work/files"
}

# The file $2 beside $1.
copy() {
    mkdir -p "${1%/*}" && cp "$2" "$1.new.$$"
}

# The copy as $1 in one step, so that a program that runs, or a second installer, never meets half of it.
place() {
    mv -f "$1.new.$$" "$1"
}

remove_copy() {
    rm -f "$1.new.$$"
}

clean_up() {
    [ ! -f "$work/files" ] || each_file remove_copy || true
    rm -rf "$work"
}

main() {
    has tar || fail 'there is no tar to unpack the archive with' 'install it'
    target=$(target)
    wanted=$(printf '%s\n' "$hashes" | sed -n "s/^$target //p")
    [ -n "$wanted" ] || fail "there is no archive of version $version for $target" "$base may have another version"
    work=$(mktemp -d)
    trap clean_up EXIT
    trap 'exit 130' INT
    trap 'exit 143' TERM HUP
    name=toolrack-$version-$target

    download "$base/$name.tar.gz" "$work/archive" ||
        fail "$base/$name.tar.gz cannot be downloaded" 'look at your connection, or name another place in TOOLRACK_BASE_URL'
    found=$(hash_of "$work/archive")
    [ "$found" = "$wanted" ] ||
        fail "the archive from $base is not the one that was released: its SHA-256 is $found and not $wanted" \
            'download it again; if that does not help, tell those who look after the place'
    tar -xzf "$work/archive" -C "$work" || fail 'the archive cannot be unpacked'
    "$work/$name/bin/toolrack" --version >/dev/null ||
        fail 'the program does not run on this system' 'on Linux it needs glibc 2.17 or newer'

    # The one that users start comes last.
    (cd "$work/$name" && find share bin/toolrack-supervisor bin/toolrack -type f) >"$work/files"
    # A full disk shows while the files are copied, and then what was installed before stays as it is.
    each_file copy || fail "$prefix/$file cannot be written" 'make room, or name another folder in TOOLRACK_PREFIX'
    state='Some files are of the new version, and others are as before: run the installer again.'
    each_file place || fail "$prefix/$file cannot be replaced" 'name another folder in TOOLRACK_PREFIX'

    printf 'Toolrack %s is in %s/bin; its manual and what completes words are in %s/share.\n' "$version" "$prefix" "$prefix"
    case :$PATH: in
    *":$prefix/bin:"*) printf 'Try it: toolrack call builtin/list_directory path=.\n' ;;
    *)
        printf 'Your PATH does not have that folder: export PATH="%s/bin:$PATH"\n' "$prefix"
        printf 'Try it: %s/bin/toolrack call builtin/list_directory path=.\n' "$prefix"
        ;;
    esac
    printf 'To remove it, and nothing that is yours:\n  cd "%s" && rm -rf bin/toolrack bin/toolrack-supervisor' "$prefix"
    printf ' share/%s' doc/toolrack toolrack/completions 'man/man1/toolrack*.1' bash-completion/completions/toolrack \
        fish/vendor_completions.d/toolrack.fish zsh/site-functions/_toolrack
    printf '\n'
}

# The last line, so that a script that arrives in part does nothing.
main
