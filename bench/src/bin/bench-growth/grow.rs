//! Worlds of growing size, and the cost of one item of each.

use std::{fmt::Write, time::Duration};

use nix::sys::resource::UsageWho;
use toolrack_bench::{
    Heap, Trouble,
    connected::{echo, settled, world},
    fakes::{Life, native},
    figures::cpu_time,
    heap::quiet,
    served::Offer,
};
use toolrack_host::{Host, Selection, ServerSpec};

/// Tools that each server has beside those of its offer.
const DOERS: usize = 3;
/// Tools of a server in worlds of many servers.
const TOOLS: usize = 10;
/// Servers in worlds of many tools.
const SERVERS: usize = 10;
/// Tools of a page.
const PAGE: usize = 500;
/// Between two servers that become ready one after the other.
const MOMENT: Duration = Duration::from_millis(5);
/// Selections and calls that are measured.
const SELECTIONS: usize = 20_000;
const CALLS: usize = 2_000;
/// Below this size, one-time costs weigh more than the costs of each item.
const SMALL: usize = 100;
/// The items that grow in number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Servers with a few tools each.
    Servers,
    /// The same, each of them ready a moment after the one before.
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

    /// The world with this many items.
    fn specs(self, items: usize) -> Vec<ServerSpec> {
        let (servers, tools) = match self {
            Self::Servers | Self::Stragglers => (items, TOOLS),
            Self::Tools => (SERVERS, items / SERVERS),
        };
        let offer = Offer { tools: tools.saturating_sub(DOERS), page: PAGE, ..Offer::default() };
        let delay = |index: usize| match self {
            Self::Stragglers => MOMENT * u32::try_from(index).unwrap_or(u32::MAX),
            Self::Servers | Self::Tools => Duration::ZERO,
        };
        let life = |index| Life { start_delay: delay(index), ..Life::default() };
        (0..servers).map(|index| ServerSpec::native(native(offer, life(index)))).collect()
    }
}

/// The figures: title, digits behind the point, and how many times the cheapest world that is not small the largest may
/// cost. A cost that grows with the square of the items is ten times as much with each step.
const COLUMNS: [(&str, usize, f64); 8] = [
    // Searching among a thousand times as many, in memory that no cache holds, takes a few times as long.
    ("start, µs an item", 1, 4.0),
    ("allocations of it", 1, 1.5),
    ("bytes kept", 0, 1.5),
    ("change of one server, µs an item", 2, 4.0),
    ("allocations of it", 2, 3.0),
    // Nothing but looking around in such memory.
    ("select, µs", 2, 12.0),
    ("call, µs", 1, 4.0),
    ("allocations of it", 1, 1.5),
];

/// A world, and the figures of [`COLUMNS`].
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

/// Starts a world with this many items, changes it, uses it and ends it.
pub(crate) async fn step(kind: Kind, items: usize) -> Result<Step, Trouble> {
    let before = quiet().await;
    let mut specs = kind.specs(items);
    let host = Host::builder().build();
    let meter = Meter::start();
    host.apply(world(specs.iter().cloned())?).await;
    settled(&host).await?;
    let start = meter.stop(items);
    indexed(&host).await;
    let kept = (quiet().await - before) / items as f64;

    // Another spec makes another server of it: it goes, and comes again with the same tools.
    if let Some(first) = specs.first_mut() {
        first.limits.pages += 1;
    }
    let meter = Meter::start();
    host.apply(world(specs)?).await;
    settled(&host).await?;
    let change = meter.stop(items);
    indexed(&host).await;
    quiet().await;

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
    let costs = [start[0], start[1], kept, change[0], change[1], select, call[0], call[1]];
    Ok(Step { items, costs })
}

/// Searches, so that the index exists: made in the background at some later time it would count for whatever is
/// measured then.
async fn indexed(host: &Host) {
    host.search("echo", 1, &Selection::default()).await;
}

/// At most this many tools from everywhere in the catalog, half of them by the names that people use.
fn sample(host: &Host, most: usize) -> Vec<String> {
    let catalog = host.catalog();
    let every = catalog.tools().len().div_ceil(most).max(1);
    let names = catalog.tools().step_by(every).enumerate();
    names.map(|(index, tool)| if index % 2 == 0 { tool.selector() } else { tool.name.clone() }).collect()
}

/// One line for each world: its costs, and their ratios to those of the world before.
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

/// The costs that grow and should not.
pub(crate) fn complaints(kind: Kind, steps: &[Step]) -> Vec<String> {
    let Some(last) = steps.last() else { return Vec::new() };
    let mut complaints = Vec::new();
    for (column, (title, _, most)) in COLUMNS.iter().enumerate() {
        let large = steps.iter().filter(|step| step.items >= SMALL.min(last.items));
        let Some(least) = large.map(|step| step.costs[column]).min_by(f64::total_cmp) else { continue };
        let grown = last.costs[column] / least;
        if grown > *most {
            complaints.push(format!(
                "with {} {}, `{title}` is {grown:.1} times what it is with fewer; {most} are allowed",
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
    fn what_grows_with_the_square_of_the_items_is_called_out() {
        let step = |items: usize, start: f64| {
            let mut costs = [1.0; COLUMNS.len()];
            costs[0] = start;
            Step { items, costs }
        };
        let told = complaints(Kind::Servers, &[step(1, 0.1), step(100, 3.0), step(1_000, 30.0)]);
        assert_eq!(told, ["with 1000 servers, `start, µs an item` is 10.0 times what it is with fewer; 4 are allowed"]);
        assert_eq!(complaints(Kind::Servers, &[step(1, 0.1), step(100, 3.0), step(1_000, 9.0)]), [""; 0]);
    }
}
