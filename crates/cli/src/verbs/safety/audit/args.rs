//! Defines the arguments of the verbs that read the audit log.

use std::{path::PathBuf, time::Duration};

use clap::{Args, Subcommand};
use toolrack_store::audit::ChainEnd;

use crate::args::parse_seconds;

/// `audit …`.
#[derive(Debug, Subcommand)]
#[command(after_help = "Examples:
  toolrack audit list --since 1h
  toolrack audit verify
  toolrack audit export > audit.jsonl")]
pub(crate) enum AuditVerb {
    /// Show what was called, connected, trusted and answered
    List(ListAuditArgs),
    /// Check that no row was changed, removed or inserted; if one was, name the first and exit with 1
    Verify(VerifyAuditArgs),
    /// Print all rows with their hashes, one line of JSON each
    Export(ExportAuditArgs),
    /// Check a copy of the files that `[audit_export]` of a team file wrote; if one is not as it was signed, exit with
    /// 1
    VerifyExport(VerifyExportArgs),
}

/// `audit list`.
#[derive(Debug, Args)]
#[command(after_help = "With `--agent AGENT`, only the rows of that agent.

Examples:
  toolrack audit list
  toolrack audit list --agent coder
  toolrack audit list --since 1h --denied
  toolrack audit list --server github --tool create_issue --limit 200 --json")]
pub(crate) struct ListAuditArgs {
    #[command(flatten)]
    pub(crate) newest: NewestRows,
}

/// Which rows to show, and how many of the newest.
#[derive(Clone, Debug, Args)]
pub(crate) struct NewestRows {
    #[command(flatten)]
    pub(crate) filter: AuditFilter,

    /// Only calls that were not allowed
    #[arg(long)]
    pub(crate) denied: bool,

    /// Show at most this many of the newest rows
    #[arg(short = 'n', long, value_name = "COUNT", default_value_t = 50)]
    pub(crate) limit: usize,
}

/// The filter that all commands share.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct AuditFilter {
    /// Only rows about this server
    #[arg(long, value_name = "SERVER")]
    pub(crate) server: Option<String>,

    /// Only rows about this tool, by the name that its server gives it
    #[arg(long, value_name = "NAME")]
    pub(crate) tool: Option<String>,

    /// Only rows that are not older than this, such as 15m, 1h or 7d
    #[arg(long, value_name = "TIME", value_parser = age)]
    pub(crate) since: Option<Duration>,
}

/// `audit verify`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  toolrack audit verify
  toolrack audit verify --json | jq -r .end > /elsewhere/audit-end
  toolrack audit verify --end \"$(cat /elsewhere/audit-end)\"")]
pub(crate) struct VerifyAuditArgs {
    /// The end that this command printed earlier: with it, the command also notices that the whole log was replaced
    #[arg(long, value_name = "END")]
    pub(crate) end: Option<ChainEnd>,
}

/// `audit export`.
#[derive(Debug, Args)]
#[command(after_help = "With `--agent AGENT`, only the rows of that agent.

Examples:
  toolrack audit export > audit.jsonl
  toolrack audit export --since 24h --server github")]
pub(crate) struct ExportAuditArgs {
    #[command(flatten)]
    pub(crate) filter: AuditFilter,
}

/// `audit verify-export`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  toolrack audit verify-export /srv/audit --key audit.pub
  toolrack audit verify-export bucket --key old.pub --key new.pub --json

It needs no database and no daemon. Take the public key from a place that the writer of the folder cannot change.")]
pub(crate) struct VerifyExportArgs {
    /// The folder, or a copy of the bucket
    #[arg(value_name = "FOLDER", value_hint = clap::ValueHint::DirPath)]
    pub(crate) folder: PathBuf,

    /// A public key of the signatures, in PEM or as JWK, instead of the keys in the folder; may be given more than once
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    pub(crate) key: Vec<PathBuf>,
}

/// Reads an age. An age of more than a hundred years counts as a hundred years.
fn age(word: &str) -> Result<Duration, String> {
    const LONGEST: f64 = 36_500.0 * 86_400.0;
    let seconds = parse_seconds(word).filter(|seconds| *seconds > 0.0);
    seconds
        .map(|seconds| Duration::from_secs_f64(seconds.min(LONGEST)))
        .ok_or_else(|| "write a time such as 15m, 48h, 7d or 2w".to_owned())
}

#[cfg(test)]
mod tests {
    use super::age;

    #[test]
    fn an_age_may_be_longer_than_a_day_in_any_unit() {
        for (word, hours) in [("48h", 48), ("2d", 48), ("1w", 168), ("1.5d", 36), ("9999999w", 36_500 * 24)] {
            assert_eq!(age(word).unwrap().as_secs(), hours * 3600, "{word}");
        }
        for word in ["", "0", "-1d", "1y", "d", "nan"] {
            let error = age(word).unwrap_err();
            assert_eq!(error, "write a time such as 15m, 48h, 7d or 2w", "{word}");
        }
    }
}
