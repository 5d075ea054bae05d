//! Measures turns of the whole agent, with a scripted model and the tools of a server in this process.

use std::{sync::Arc, time::Instant};

use serde_json::json;
use toolrack_agent::{Agent, End, Limits, Message, Model, NoopFront, Role, Turn, model::Scripted};
use toolrack_bench::{
    AnyError, Figures, Job, Watch,
    connected::connected_host,
    fakes::{Life, native},
    fast_server::Offer,
    figures::median_us,
    job::ROUNDS,
};
use toolrack_host::{Selection, ServerSpec};

/// The number of tools that the fast server has in addition to its offer.
const EXTRA_TOOLS: usize = 3;

/// Measures the time of one round: a request to the model, with all tools, and a call.
pub(crate) async fn turns(job: &Job) -> Result<Figures, AnyError> {
    let offer = Offer { tools: job.row.tools().saturating_sub(EXTRA_TOOLS), ..Offer::default() };
    let host = connected_host(ServerSpec::native(native(offer, Life::default())), 1).await?;
    let selection = match job.row.tools() {
        1 => Selection::all().only(["s0/echo".parse()?]),
        _ => Selection::all(),
    };
    let selection = Arc::new(selection);
    let mut samples = Vec::new();
    let watch = Watch::start();
    for _ in 0..job.count {
        let mut agent = Agent::new(Arc::new(model()) as Arc<dyn Model>, host.clone());
        agent.selection = Arc::clone(&selection);
        agent.system = Some("You are helpful.".to_owned());
        let mut turn = Turn::new(vec![Message::new(Role::User, "Say it.")], Limits::default());
        let began = Instant::now();
        let end = agent.run(&mut turn, &mut NoopFront).await?;
        let rounds = u32::try_from(ROUNDS)?;
        samples.push(began.elapsed() / rounds);
        // The first line of a result names the server; the text of the tool follows.
        let echoed = turn.messages().iter().filter(|message| message.content.ends_with("\nhello 1")).count();
        if (end, echoed) != (End::Answered, 1) {
            return Err("the turn did not follow the script of the model".into());
        }
    }
    let figures = watch.stop(job.count * ROUNDS);
    host.shutdown().await;
    Ok(Figures { p50_us: Some(median_us(&mut samples)), per_second: None, ms: None, ..figures })
}

/// Returns a model that calls a tool in every round but the last, each time with another argument.
fn model() -> Scripted {
    let script = (1..ROUNDS).fold(Scripted::new(), |script, round| {
        script.call_tool("mcp__s0__echo", json!({ "text": format!("hello {round}") }))
    });
    script.say("That is all.")
}
