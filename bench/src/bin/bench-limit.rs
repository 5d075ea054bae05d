//! The limit that other clients are compared with: a client that moves the same bytes without an MCP library, and
//! parses only the id of each response. It shows what the machine can do.

use std::{
    io::{BufRead, BufReader, Write},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use serde::Deserialize;
use toolrack_bench::{AnyError, Figures, Job, Row, Watch, figures::median_us, measure};

/// The first request to a server of 2025-11-25.
const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"limit","version":"1"}}}"#;

/// The first request to a server of 2026-07-28.
const DISCOVER: &str = r#"{"jsonrpc":"2.0","id":0,"method":"server/discover","params":{}}"#;

/// Returns the first request to a server.
fn first_request(job: &Job) -> String {
    if job.is_modern { DISCOVER } else { INITIALIZE }.to_owned()
}

/// The parts of a response that this client reads.
#[derive(Deserialize)]
struct Reply<'a> {
    id: u64,
    #[serde(borrow)]
    result: &'a serde_json::value::RawValue,
}

fn call(id: usize, tool: &str, arguments: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"{tool}","arguments":{arguments}}}}}"#
    )
}

/// Returns a call as [`call`] does, with the metadata that every request of 2026-07-28 carries.
fn echo(job: &Job, id: usize) -> String {
    let call = call(id, "echo", r#"{"text":"hello"}"#);
    if job.is_modern { call.replace(r#""params":{"#, META) } else { call }
}

/// The beginning of the parameters of a request of 2026-07-28.
const META: &str = r#""params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"limit","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}},"#;

fn main() -> Result<(), AnyError> {
    let job = Job::from_command_line()?;
    let figures = match job.row {
        Row::StdioOne => stdio_one(&job)?,
        Row::Stdio64 => stdio_64(&job)?,
        Row::List => list(&job)?,
        Row::Big => big(&job)?,
        Row::Servers => servers(&job)?,
        Row::Block => block(&job)?,
        Row::Agent1 | Row::Agent100 | Row::Agent1000 => return Err("this program runs no agent".into()),
        Row::HttpOne | Row::Http64 | Row::Http8 | Row::Events => {
            tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(http(&job))?
        }
    };
    toolrack_bench::print(&figures)
}

/// A server over stdio.
struct Pipes {
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
    line: Vec<u8>,
}

impl Pipes {
    fn open(job: &Job) -> Result<Self, AnyError> {
        let (program, args) = job.command()?;
        let mut child = Command::new(program).args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let stdin = child.stdin.take().ok_or("no stdin")?;
        let stdout = BufReader::with_capacity(1 << 16, child.stdout.take().ok_or("no stdout")?);
        let mut pipes = Self { child, stdin, stdout, line: Vec::new() };
        pipes.send(&first_request(job))?;
        pipes.receive()?;
        Ok(pipes)
    }

    fn send(&mut self, message: &str) -> Result<(), AnyError> {
        let mut bytes = Vec::with_capacity(message.len() + 1);
        bytes.extend_from_slice(message.as_bytes());
        bytes.push(b'\n');
        Ok(self.stdin.write_all(&bytes)?)
    }

    /// Reads the next response, and returns the bytes of its result.
    fn receive(&mut self) -> Result<usize, AnyError> {
        self.line.clear();
        self.stdout.read_until(b'\n', &mut self.line)?;
        let reply: Reply<'_> = serde_json::from_slice(&self.line)?;
        std::hint::black_box(reply.id);
        Ok(reply.result.get().len())
    }

    fn close(self) -> Result<(), AnyError> {
        let Self { mut child, stdin, .. } = self;
        drop(stdin);
        child.wait()?;
        Ok(())
    }
}

fn stdio_one(job: &Job) -> Result<Figures, AnyError> {
    let mut pipes = Pipes::open(job)?;
    let mut timed_call = |id| -> Result<Duration, AnyError> {
        let began = Instant::now();
        pipes.send(&echo(job, id))?;
        pipes.receive()?;
        Ok(began.elapsed())
    };
    for id in 0..job.row.warm_up() {
        timed_call(id)?;
    }
    let watch = Watch::start();
    let mut samples = (0..job.count).map(&mut timed_call).collect::<Result<Vec<_>, _>>()?;
    let figures = watch.stop(job.count);
    pipes.close()?;
    Ok(Figures { p50_us: Some(median_us(&mut samples)), ms: None, ..figures })
}

/// Sends 64 requests at once, and the next 64 as soon as all responses have arrived.
fn stdio_64(job: &Job) -> Result<Figures, AnyError> {
    let mut pipes = Pipes::open(job)?;
    let batch: String = (0..job.row.in_flight()).map(|id| echo(job, id) + "\n").collect();
    let mut round = || -> Result<(), AnyError> {
        pipes.stdin.write_all(batch.as_bytes())?;
        (0..job.row.in_flight()).try_for_each(|_| pipes.receive().map(drop))
    };
    (0..job.row.warm_up() / job.row.in_flight()).try_for_each(|_| round())?;
    let watch = Watch::start();
    (0..job.count / job.row.in_flight()).try_for_each(|_| round())?;
    let figures = watch.stop(job.count);
    pipes.close()?;
    Ok(Figures { ms: None, ..figures })
}

fn list(job: &Job) -> Result<Figures, AnyError> {
    let mut pipes = Pipes::open(job)?;
    let watch = Watch::start();
    pipes.send(r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{}}"#)?;
    pipes.receive()?;
    let figures = watch.stop(1);
    pipes.close()?;
    Ok(Figures { per_second: None, cpu_us: None, ..figures })
}

fn big(job: &Job) -> Result<Figures, AnyError> {
    let mut pipes = Pipes::open(job)?;
    let watch = Watch::start();
    pipes.send(&call(1, "text", &format!(r#"{{"bytes":{}}}"#, job.count)))?;
    if pipes.receive()? < job.count {
        return Err("bytes are missing".into());
    }
    let figures = watch.stop(1);
    pipes.close()?;
    Ok(Figures { per_second: None, cpu_us: None, ..figures })
}

/// Lists the tools once, and then copies the bytes of that list for each turn.
fn block(job: &Job) -> Result<Figures, AnyError> {
    let mut pipes = Pipes::open(job)?;
    pipes.send(r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{}}"#)?;
    pipes.receive()?;
    let list = std::mem::take(&mut pipes.line);
    pipes.close()?;
    Ok(measure::turns(job.count, || list.clone()))
}

fn servers(job: &Job) -> Result<Figures, AnyError> {
    let watch = Watch::start();
    let open = |_| -> Result<Pipes, AnyError> {
        let mut pipes = Pipes::open(job)?;
        pipes.send(r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{}}"#)?;
        pipes.receive()?;
        Ok(pipes)
    };
    let opened: Vec<Pipes> = thread::scope(|scope| {
        let threads: Vec<_> = (0..job.count).map(|index| scope.spawn(move || open(index))).collect();
        threads
            .into_iter()
            .map(|thread| thread.join().map_err(|_| "a thread panicked")?)
            .collect::<Result<_, AnyError>>()
    })?;
    let figures = watch.stop(1);
    opened.into_iter().try_for_each(Pipes::close)?;
    Ok(Figures { per_second: None, cpu_us: None, ..figures })
}

async fn http(job: &Job) -> Result<Figures, AnyError> {
    let client = reqwest::Client::builder().no_proxy().build()?;
    let url = job.url()?;
    let post = |body: String| {
        let request = client
            .post(url)
            .header("content-type", "application/json")
            .header("accept", "application/json, text/event-stream")
            .body(body);
        async move {
            let bytes = request.send().await?.error_for_status()?.bytes().await?;
            Ok::<_, AnyError>(bytes)
        }
    };
    let parse = |bytes: &[u8]| -> Result<(), AnyError> {
        let reply: Reply<'_> = serde_json::from_slice(bytes)?;
        std::hint::black_box((reply.id, reply.result.get().len()));
        Ok(())
    };
    post(first_request(job)).await?;
    if job.row == Row::Events {
        let params = format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"progress","arguments":{{"steps":{}}},"_meta":{{"progressToken":1}}}}}}"#,
            job.count
        );
        let watch = Watch::start();
        let body = post(params).await?;
        let events = body.split(|byte| *byte == b'\n').filter(|line| line.starts_with(b"data:")).count();
        if events != job.count + 1 {
            return Err("events are missing".into());
        }
        return Ok(watch.stop(job.count));
    }
    let timed_call = async |id: usize| -> Result<Duration, AnyError> {
        let began = Instant::now();
        parse(&post(echo(job, id)).await?)?;
        Ok(began.elapsed())
    };
    measure::calls(job, timed_call).await
}
