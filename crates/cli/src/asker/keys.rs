//! Reads single keys of the terminal, without Enter.

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

/// The byte of Ctrl-D (end of input), which [`KeyMode`] delivers like any other key.
const CTRL_D: u8 = 4;

/// While this exists, the terminal delivers each key immediately, and does not show it. Ctrl-C still interrupts.
#[derive(Debug)]
pub(crate) struct KeyMode {
    terminal: OwnedFd,
    original_mode: Termios,
}

impl KeyMode {
    /// Switches stdin to single keys, and discards earlier input, so that it does not answer the next question. Returns
    /// `None` if stdin is not a terminal.
    pub(super) fn enter_on_stdin() -> Option<Self> {
        let terminal = io::stdin().as_fd().try_clone_to_owned().ok()?;
        let original_mode = tcgetattr(&terminal).ok()?;
        let mut key_mode = original_mode.clone();
        key_mode.local_flags.remove(LocalFlags::ICANON | LocalFlags::ECHO);
        // A read returns as soon as there is one byte, and waits for it without a time limit.
        key_mode.control_chars[SpecialCharacterIndices::VMIN as usize] = 1;
        key_mode.control_chars[SpecialCharacterIndices::VTIME as usize] = 0;
        // TCSAFLUSH discards earlier input.
        tcsetattr(&terminal, SetArg::TCSAFLUSH, &key_mode).ok()?;
        Some(Self { terminal, original_mode })
    }
}

impl Drop for KeyMode {
    fn drop(&mut self) {
        // Input that came together with the key, such as Enter, must not answer the next question.
        let _ = tcsetattr(&self.terminal, SetArg::TCSAFLUSH, &self.original_mode);
    }
}

/// Reads the next key; `None` at the end of input (Ctrl-D), and after an error. Pasted text is returned as one text, so
/// that its first letter is not an answer.
pub(super) fn read_key() -> Option<String> {
    let mut bytes = [0; MAX_BYTES];
    loop {
        // Bypasses the buffer of `std`'s stdin, which would keep the input after the key.
        match read(io::stdin().as_fd(), &mut bytes) {
            Ok(0) => return None,
            Ok(1) if bytes[0] == CTRL_D => return None,
            Ok(length) => return Some(String::from_utf8_lossy(&bytes[..length]).into_owned()),
            Err(Errno::EINTR) => {}
            Err(_) => return None,
        }
    }
}
