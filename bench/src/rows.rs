//! The rows of the table: the kinds of work that every client does, and the figure that a row compares.

use toolrack_bench::{Figures, Row};

/// The work of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    /// A job for a library.
    Library(Row),
    /// A job for an agent.
    Agent(Row),
    /// A whole process that prints the tools of a server.
    ColdTools,
    /// A whole process that calls one tool.
    ColdCall,
    /// As [`ColdCall`](Self::ColdCall), but for Toolrack a daemon runs, which keeps the server connected.
    WarmCall,
    /// Calls through a gateway.
    Gateway(Row),
}

/// One row.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// The name on the command line.
    pub(crate) name: &'static str,
    /// The name in the table.
    pub(crate) title: &'static str,
    pub(crate) work: Work,
    /// The amount of work: calls, servers, bytes or steps.
    pub(crate) count: usize,
    /// The options of `bench-server` for this row.
    pub(crate) server: &'static [&'static str],
    /// The figure that the row compares, and its unit.
    pub(crate) figure: (fn(&Figures) -> Option<f64>, &'static str),
    /// Whether more is better.
    pub(crate) more_is_better: bool,
    /// Whether the server speaks 2026-07-28 and nothing older.
    pub(crate) is_modern: bool,
}

const P50: (fn(&Figures) -> Option<f64>, &str) = (|figures| figures.p50_us, "µs");
const RATE: (fn(&Figures) -> Option<f64>, &str) = (|figures| figures.per_second, "/s");
const MS: (fn(&Figures) -> Option<f64>, &str) = (|figures| figures.ms, "ms");

const GATEWAY_ONE: &str =
    "gateway in front of a stdio server, one after another, p50 (limit: the server itself, over HTTP)";
const GATEWAY_8: &str = "gateway in front of a stdio server, 8 in flight (limit: the server itself, over HTTP)";

/// All rows.
pub(crate) fn plans() -> Vec<Plan> {
    let library = |row: Row, title, count, server, figure| Plan {
        name: row.word(),
        title,
        work: Work::Library(row),
        count,
        server,
        figure,
        more_is_better: figure.1 == "/s",
        is_modern: false,
    };
    let modern = |name, row, title, count, figure| Plan {
        name,
        is_modern: true,
        ..library(row, title, count, &["--era", "modern"], figure)
    };
    let cold = |name, title, work| Plan {
        name,
        title,
        work,
        count: 1,
        server: &["--tools", "20"],
        figure: MS,
        more_is_better: false,
        is_modern: false,
    };
    let agent = |row: Row, title| Plan { work: Work::Agent(row), ..library(row, title, 200, &[], P50) };
    vec![
        library(Row::StdioOne, "stdio, one after another, p50", 10_000, &[], P50),
        library(Row::Stdio64, "stdio, 64 in flight", 64_000, &[], RATE),
        library(Row::HttpOne, "HTTP, one after another, p50", 4_000, &[], P50),
        library(Row::Http64, "HTTP, 64 in flight", 16_000, &[], RATE),
        modern("stdio-one-modern", Row::StdioOne, "stdio of 2026-07-28, one after another, p50", 10_000, P50),
        modern("http-one-modern", Row::HttpOne, "HTTP of 2026-07-28, one after another, p50", 4_000, P50),
        modern("http-64-modern", Row::Http64, "HTTP of 2026-07-28, 64 in flight", 16_000, RATE),
        library(Row::Servers, "100 stdio servers, 300 ms start each", 100, &["--start-delay-ms", "300"], MS),
        library(Row::Block, "tools for the model, 100 of them, each turn", 10_000, &["--tools", "97"], P50),
        library(Row::List, "list 10,000 tools, one page", 10_000, &["--tools", "10000"], MS),
        library(Row::Big, "8 MiB text result, stdio", 8 * 1024 * 1024, &[], MS),
        library(Row::Events, "10,000 SSE progress events", 10_000, &[], RATE),
        agent(Row::Agent1, "a round of an agent, 1 tool, p50"),
        agent(Row::Agent100, "a round of an agent, 100 tools, p50"),
        agent(Row::Agent1000, "a round of an agent, 1,000 tools, p50"),
        cold("cold-tools", "cold command line: tools", Work::ColdTools),
        cold("cold-call", "cold command line: call", Work::ColdCall),
        cold("warm-call", "command line: call, through a daemon where there is one", Work::WarmCall),
        Plan {
            name: "gateway-one",
            work: Work::Gateway(Row::HttpOne),
            ..library(Row::HttpOne, GATEWAY_ONE, 2_000, &[], P50)
        },
        Plan { name: "gateway-8", work: Work::Gateway(Row::Http8), ..library(Row::Http8, GATEWAY_8, 8_000, &[], RATE) },
    ]
}
