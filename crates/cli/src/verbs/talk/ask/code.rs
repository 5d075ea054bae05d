//! The interpreter that runs the scripts of `--code`.

use std::sync::Arc;

use toolrack_host::Interpreter;

use crate::error::Failure;

/// The interpreter of this program.
///
/// # Errors
/// When it was built without one.
#[cfg(feature = "code")]
#[expect(clippy::unnecessary_wraps, reason = "it fails where the feature is off")]
pub(in crate::verbs) fn interpreter() -> Result<Arc<dyn Interpreter>, Failure> {
    Ok(Arc::new(toolrack_code::QuickJs::default()))
}

/// The interpreter of this program.
///
/// # Errors
/// When it was built without one.
#[cfg(not(feature = "code"))]
pub(in crate::verbs) fn interpreter() -> Result<Arc<dyn Interpreter>, Failure> {
    Err(Failure::usage("this program was built without --code").hint("build it with `--features code`"))
}
