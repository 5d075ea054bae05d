//! Single keys of the terminal, without Enter.

use std::{
    io,
    os::fd::{AsFd as _, OwnedFd},
};

use nix::{
    errno::Errno,
    sys::termios::{LocalFlags, SetArg, SpecialCharacterIndices, Termios, tcgetattr, tcsetattr},
    unistd::read,
};

/// The most bytes that are read at once: a key, or a short text that was pasted.
const MAX_BYTES: usize = 256;

/// Ctrl-D.
const END: u8 = 4;

/// While this exists, the terminal delivers each key immediately, and does not show it. Ctrl-C still interrupts.
#[derive(Debug)]
pub(crate) struct KeyMode {
    terminal: OwnedFd,
    before: Termios,
}

impl KeyMode {
    /// Switches stdin to keys, and discards earlier input, so that it answers no later question; `None` if there is no
    /// terminal.
    pub(super) fn of_stdin() -> Option<Self> {
        let terminal = io::stdin().as_fd().try_clone_to_owned().ok()?;
        let before = tcgetattr(&terminal).ok()?;
        let mut keys = before.clone();
        keys.local_flags.remove(LocalFlags::ICANON | LocalFlags::ECHO);
        keys.control_chars[SpecialCharacterIndices::VMIN as usize] = 1;
        keys.control_chars[SpecialCharacterIndices::VTIME as usize] = 0;
        tcsetattr(&terminal, SetArg::TCSAFLUSH, &keys).ok()?;
        Some(Self { terminal, before })
    }
}

impl Drop for KeyMode {
    fn drop(&mut self) {
        // Input that came together with the key, such as Enter, must not answer the next question.
        let _ = tcsetattr(&self.terminal, SetArg::TCSAFLUSH, &self.before);
    }
}

/// Reads the next key; `None` at the end of input (Ctrl-D). Pasted text is returned as one text, so that its first
/// letter is not an answer.
pub(super) fn read_key() -> Option<String> {
    let mut bytes = [0; MAX_BYTES];
    loop {
        // Bypasses the buffer of lines, which would keep the input after the key.
        match read(io::stdin().as_fd(), &mut bytes) {
            Ok(0) => return None,
            Ok(1) if bytes[0] == END => return None,
            Ok(length) => return Some(String::from_utf8_lossy(&bytes[..length]).into_owned()),
            Err(Errno::EINTR) => {}
            Err(_) => return None,
        }
    }
}
