//! Renders the progress of a call, as its server reports it.

use toolrack_host::mcp::Progress;

/// Returns `42 %`, or the plain number if the server does not report a total.
pub(crate) fn amount(progress: &Progress) -> String {
    let done = progress.progress;
    match progress.total {
        Some(total) if total > 0.0 => format!("{:.0} %", (done / total * 100.0).clamp(0.0, 100.0)),
        _ => format!("{done}"),
    }
}

/// Returns `3 of 10: copying`; leaves out the total and the message that the server does not report.
pub(crate) fn words(progress: &Progress) -> String {
    let done = progress.progress;
    let done = match progress.total {
        Some(total) => format!("{done} of {total}"),
        None => done.to_string(),
    };
    match &progress.message {
        Some(message) => format!("{done}: {message}"),
        None => done,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_never_shows_an_impossible_percentage() {
        let report = |progress, total| amount(&Progress { progress, total, message: None });
        assert_eq!(report(1.0, Some(3.0)), "33 %");
        assert_eq!(report(9.0, Some(3.0)), "100 %");
        assert_eq!(report(-1.0, Some(3.0)), "0 %");
        assert_eq!(report(9.0, Some(0.0)), "9");
        assert_eq!(report(0.5, None), "0.5");
    }
}
