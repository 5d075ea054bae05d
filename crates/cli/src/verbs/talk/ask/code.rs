//! Provides the interpreter that runs the scripts of `--code`.

use std::sync::Arc;

use toolrack_host::Interpreter;

use crate::error::Failure;

/// Returns the interpreter for scripts.
///
/// # Errors
/// When this program was built without an interpreter.
#[cfg(feature = "code")]
#[expect(clippy::unnecessary_wraps, reason = "it fails where the feature is off")]
pub(in crate::verbs) fn interpreter() -> Result<Arc<dyn Interpreter>, Failure> {
    Ok(Arc::new(toolrack_code::QuickJs::default()))
}

/// Returns the interpreter for scripts.
///
/// # Errors
/// When this program was built without an interpreter.
#[cfg(not(feature = "code"))]
pub(in crate::verbs) fn interpreter() -> Result<Arc<dyn Interpreter>, Failure> {
    Err(Failure::usage("this program was built without --code").hint("build it with `--features code`"))
}
