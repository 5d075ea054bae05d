//! The table of the benchmark: medians, and ratios to the limit. The limit is a client that moves the same bytes
//! without an MCP library.

use std::fmt::Write;

use toolrack_bench::{AnyError, Figures};

use crate::{Measured, clients::Client, rows::Plan};

/// Prints the table, and writes it with all figures into `target/bench/`.
pub(crate) fn write(plans: &[Plan], clients: &[Client], measured: &Measured, pinned: bool) -> Result<(), AnyError> {
    let page = page(plans, clients, measured, pinned);
    println!("{page}");
    let folder = std::env::current_exe()?.ancestors().nth(2).ok_or("no target folder")?.join("bench");
    std::fs::create_dir_all(&folder)?;
    std::fs::write(folder.join("report.md"), &page)?;
    let rows: Vec<_> = measured
        .iter()
        .map(|((row, column), rounds)| {
            serde_json::json!({ "row": plans[*row].name, "client": clients[*column].name, "rounds": rounds })
        })
        .collect();
    std::fs::write(folder.join("report.json"), serde_json::to_string_pretty(&rows)?)?;
    println!("(also in {})", folder.display());
    Ok(())
}

fn page(plans: &[Plan], clients: &[Client], measured: &Measured, pinned: bool) -> String {
    let columns: Vec<usize> =
        (0..clients.len()).filter(|column| measured.keys().any(|(_, measured)| measured == column)).collect();
    let mut out = String::from("| work |");
    for column in &columns {
        let _ = write!(out, " {} |", clients[*column].name);
    }
    let _ = write!(out, "\n|---|{}\n", "---|".repeat(columns.len()));
    for (row, plan) in plans.iter().enumerate() {
        if !measured.keys().any(|(measured, _)| *measured == row) {
            continue;
        }
        let _ = write!(out, "| {} |", plan.title);
        let median_of = |column: usize| measured.get(&(row, column)).map(|rounds| median(rounds, plan.figure.0));
        // The limit is the first client.
        let limit = median_of(0).flatten();
        for column in &columns {
            let cell = measured.get(&(row, *column)).map_or_else(|| "–".to_owned(), |rounds| cell(plan, rounds, limit));
            let _ = write!(out, " {cell} |");
        }
        out.push('\n');
    }
    let rounds = measured.values().map(Vec::len).max().unwrap_or(0);
    let processors = std::thread::available_parallelism().map_or(0, std::num::NonZero::get);
    let place = if pinned { "all on one processor".to_owned() } else { format!("{processors} processors") };
    let _ = write!(
        out,
        "\nMedians of {rounds} interleaved rounds, {place}. `×` is the ratio to the limit: smaller is better."
    );
    out
}

/// Returns a cell of the table, such as `12.3 µs, 2.1 ×, cpu 10 µs, 9 MB`.
fn cell(plan: &Plan, rounds: &[Figures], limit: Option<f64>) -> String {
    let (figure, unit) = plan.figure;
    let Some(value) = median(rounds, figure) else {
        return "–".to_owned();
    };
    let mut words = format!("**{}** {unit}", rounded(value));
    if let Some(limit) = limit.filter(|limit| *limit > 0.0 && value > 0.0) {
        let ratio = if plan.more_is_better { limit / value } else { value / limit };
        let _ = write!(words, ", {ratio:.2} ×");
    }
    if let Some(cpu) = median(rounds, |figures| figures.cpu_us) {
        let _ = write!(words, ", cpu {} µs", rounded(cpu));
    }
    if let Some(memory) = median(rounds, |figures| figures.hwm_kb) {
        let _ = write!(words, ", {} MB", rounded(memory / 1_000.0));
    }
    let sum = |figure: fn(&Figures) -> Option<u64>| rounds.iter().filter_map(figure).sum::<u64>();
    let (lost, disordered) = (sum(|figures| figures.lost), sum(|figures| figures.disordered));
    if lost + disordered > 0 {
        let _ = write!(words, ", {lost} lost, {disordered} out of order");
    }
    words
}

fn median(rounds: &[Figures], figure: fn(&Figures) -> Option<f64>) -> Option<f64> {
    let mut values: Vec<f64> = rounds.iter().filter_map(figure).collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

/// Rounds to three significant digits.
fn rounded(value: f64) -> String {
    match value {
        value if value >= 10_000.0 => format!("{:.0} k", value / 1_000.0),
        value if value >= 100.0 => format!("{value:.0}"),
        value if value >= 10.0 => format!("{value:.1}"),
        value => format!("{value:.2}"),
    }
}
