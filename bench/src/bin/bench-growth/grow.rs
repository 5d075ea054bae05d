//! Measures the cost of one server or tool in hosts with a growing number of them.

use std::{fmt::Write, time::Duration};

use nix::sys::resource::UsageWho;
use toolrack_bench::{
    AnyError, Heap,
    connected::{desired_servers, echo, wait_until_connected},
    fakes::{Life, native},
    fast_server::Offer,
    figures::cpu_time,
    heap::settled_bytes,
};
use toolrack_host::{Host, Selection, ServerSpec};

/// The number of tools that each server has in addition to its offer.
const EXTRA_TOOLS: usize = 3;
/// The number of tools of a server, in a host with many servers.
const TOOLS: usize = 10;
/// The number of servers, in a host with many tools.
const SERVERS: usize = 10;
/// The number of tools on a page of a list.
const PAGE: usize = 500;
/// The time between two servers that become ready one after the other.
const START_INTERVAL: Duration = Duration::from_millis(5);
/// The number of selections that are measured.
const SELECTIONS: usize = 20_000;
/// The number of calls that are measured.
const CALLS: usize = 2_000;
/// Hosts with fewer items are not compared, because there one-time costs weigh more than the cost of each item.
const MIN_COMPARED_ITEMS: usize = 100;

/// The items that grow in number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Servers with a few tools each.
    Servers,
    /// Servers with a few tools each, which become ready one after another.
    Stragglers,
    /// Tools of a few servers.
    Tools,
}

impl Kind {
    fn word(self) -> &'static str {
        match self {
            Self::Servers => "servers",
            Self::Stragglers => "servers, one after another",
            Self::Tools => "tools",
        }
    }

    /// Returns the servers with this many items in total.
    fn specs(self, items: usize) -> Vec<ServerSpec> {
        let (servers, tools) = match self {
            Self::Servers | Self::Stragglers => (items, TOOLS),
            Self::Tools => (SERVERS, items / SERVERS),
        };
        let offer = Offer { tools: tools.saturating_sub(EXTRA_TOOLS), page: PAGE, ..Offer::default() };
        let delay = |index: usize| match self {
            Self::Stragglers => START_INTERVAL * u32::try_from(index).unwrap_or(u32::MAX),
            Self::Servers | Self::Tools => Duration::ZERO,
        };
        let life = |index| Life { start_delay: delay(index), ..Life::default() };
        (0..servers).map(|index| ServerSpec::native(native(offer, life(index)))).collect()
    }
}

/// The figures: the title, the decimal places, and the maximum ratio of the cost of an item in the largest host to the
/// lowest cost of an item in any host with at least [`MIN_COMPARED_ITEMS`]. Each step has ten times as many items: if
/// the total cost grows with the square of their number, each item costs ten times as much with each step.
const COLUMNS: [(&str, usize, f64); 8] = [
    // In the largest hosts, each look-up takes a few times as long, because the items no longer fit into the caches of
    // the processor.
    ("start, µs an item", 1, 4.0),
    ("allocations of it", 1, 1.5),
    ("bytes kept", 0, 1.5),
    ("change of one server, µs an item", 2, 4.0),
    ("allocations of it", 2, 3.0),
    // A selection consists only of such look-ups.
    ("select, µs", 2, 12.0),
    ("call, µs", 1, 4.0),
    ("allocations of it", 1, 1.5),
];

/// The figures of [`COLUMNS`] for a host with this many items.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    items: usize,
    costs: [f64; COLUMNS.len()],
}

/// Processor time of this process alone in microseconds, and allocations.
struct Meter {
    cpu: f64,
    heap: Heap,
}

impl Meter {
    fn start() -> Self {
        Self { cpu: cpu_time(UsageWho::RUSAGE_SELF).as_secs_f64() * 1e6, heap: Heap::now() }
    }

    fn stop(self, count: usize) -> [f64; 2] {
        let allocations = self.heap.allocations();
        let cpu = cpu_time(UsageWho::RUSAGE_SELF).as_secs_f64() * 1e6 - self.cpu;
        [cpu, allocations].map(|figure| figure / count as f64)
    }
}

/// Starts a host with this many items, changes it, uses it and ends it.
pub(crate) async fn step(kind: Kind, items: usize) -> Result<Step, AnyError> {
    let before = settled_bytes().await;
    let mut specs = kind.specs(items);
    let host = Host::builder().build();
    let meter = Meter::start();
    host.apply(desired_servers(specs.iter().cloned())?).await;
    wait_until_connected(&host).await?;
    let start = meter.stop(items);
    build_index(&host).await;
    let bytes_kept = (settled_bytes().await - before) / items as f64;

    // With another spec, the host replaces the first server; its tools stay the same.
    if let Some(first) = specs.first_mut() {
        first.limits.pages += 1;
    }
    let meter = Meter::start();
    host.apply(desired_servers(specs)?).await;
    wait_until_connected(&host).await?;
    let change = meter.stop(items);
    build_index(&host).await;
    // Wait until the tasks of the replaced server have ended; the number of bytes does not matter here.
    settled_bytes().await;

    let names: Vec<String> = sample(&host, SELECTIONS / 10);
    let catalog = host.catalog();
    let meter = Meter::start();
    for name in names.iter().cycle().take(SELECTIONS) {
        std::hint::black_box(catalog.select(name)?);
    }
    let [select, _] = meter.stop(SELECTIONS);
    drop(catalog);

    let servers: Vec<String> = host.status().iter().map(|server| format!("{}/echo", server.name)).collect();
    let meter = Meter::start();
    for selector in servers.iter().cycle().take(CALLS) {
        echo(&host, selector).await?;
    }
    let call = meter.stop(CALLS);
    host.shutdown().await;
    let costs = [start[0], start[1], bytes_kept, change[0], change[1], select, call[0], call[1]];
    Ok(Step { items, costs })
}

/// Searches once, so that the index exists. Otherwise the host would build it in the background during a later
/// measurement.
async fn build_index(host: &Host) {
    host.search("echo", 1, &Selection::default()).await;
}

/// Returns the names of at most `max` tools, spread over the catalog. Half of the names are as users write them, half
/// as models do.
fn sample(host: &Host, max: usize) -> Vec<String> {
    let catalog = host.catalog();
    let step = catalog.tools().len().div_ceil(max).max(1);
    let names = catalog.tools().step_by(step).enumerate();
    names.map(|(index, tool)| if index % 2 == 0 { tool.selector() } else { tool.name.clone() }).collect()
}

/// Returns a table with a line for each host: its costs, and the ratio of each to that of the host in the line before.
pub(crate) fn table(kind: Kind, steps: &[Step]) -> String {
    let mut out = format!("| {} |", kind.word());
    for (title, ..) in COLUMNS {
        let _ = write!(out, " {title} |");
    }
    let _ = write!(out, "\n|---|{}\n", "---|".repeat(COLUMNS.len()));
    for (index, step) in steps.iter().enumerate() {
        let _ = write!(out, "| {} |", step.items);
        for (column, (_, digits, _)) in COLUMNS.iter().enumerate() {
            let _ = write!(out, " {:.digits$}", step.costs[column]);
            if let Some(before) = index.checked_sub(1).map(|before| steps[before].costs[column]) {
                let _ = write!(out, ", {:.2} ×", step.costs[column] / before);
            }
            out += " |";
        }
        out.push('\n');
    }
    out
}

/// Returns a sentence for each cost that grows more than it may.
pub(crate) fn complaints(kind: Kind, steps: &[Step]) -> Vec<String> {
    let Some(last) = steps.last() else { return Vec::new() };
    let mut complaints = Vec::new();
    for (column, (title, _, max_ratio)) in COLUMNS.iter().enumerate() {
        // If all hosts are smaller, only the last one remains, which is then compared with itself.
        let large = steps.iter().filter(|step| step.items >= MIN_COMPARED_ITEMS.min(last.items));
        let Some(least) = large.map(|step| step.costs[column]).min_by(f64::total_cmp) else { continue };
        let ratio = last.costs[column] / least;
        if ratio > *max_ratio {
            complaints.push(format!(
                "with {} {}, `{title}` is {ratio:.1} times what it is with fewer; at most {max_ratio} times is allowed",
                last.items,
                kind.word()
            ));
        }
    }
    complaints
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cost_that_grows_with_the_square_of_the_items_is_reported() {
        let step = |items: usize, start: f64| {
            let mut costs = [1.0; COLUMNS.len()];
            costs[0] = start;
            Step { items, costs }
        };
        let found = complaints(Kind::Servers, &[step(1, 0.1), step(100, 3.0), step(1_000, 30.0)]);
        assert_eq!(
            found,
            ["with 1000 servers, `start, µs an item` is 10.0 times what it is with fewer; at most 4 times is allowed"]
        );
        assert_eq!(complaints(Kind::Servers, &[step(1, 0.1), step(100, 3.0), step(1_000, 9.0)]), [""; 0]);
    }
}
