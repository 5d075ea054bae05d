//! Turns of Rig's own agent, for `cargo xtask bench`: `rounds ROW COUNT`. Nothing of Toolrack is in it.
//!
//! A scripted model and tools in the same process, as in the programs of the other agents. Prints one line of JSON.

#![expect(clippy::print_stdout, reason = "a program that prints what it measured")]

use std::{
    env,
    error::Error,
    time::{Duration, Instant},
};

use rig_agent::{Agent, AgentBuilder};
use rig_core::{
    message::ToolName,
    test_utils::{MockCompletionModel, MockTurn},
    tool::{DynamicTool, ToolOutput},
};
use serde_json::{Value, json};

/// Rounds of a turn: all but the last make a call.
const ROUNDS: u32 = 10;

fn tool(name: &str, description: &str, schema: &Value) -> Result<DynamicTool, Box<dyn Error>> {
    Ok(DynamicTool::new(ToolName::new(name)?, description, schema.clone(), |arguments| {
        Box::pin(async move { Ok(ToolOutput::text(arguments["text"].as_str().unwrap_or_default())) })
    }))
}

/// The tools of the benchmark's fast server.
fn tools(count: usize) -> Result<Vec<DynamicTool>, Box<dyn Error>> {
    let like: Value = serde_json::from_str(include_str!("../../../bench/peers/tool.json"))?;
    let description = like["description"].as_str().unwrap_or_default();
    let text = json!({ "type": "object", "properties": { "text": { "type": "string" } }, "required": ["text"] });
    let rest = (1..count).map(|index| tool(&format!("tool_{index:04}"), description, &like["schema"]));
    std::iter::once(tool("echo", "Returns the text.", &text)).chain(rest).collect()
}

/// An agent for one turn: its model keeps its requests, which would pile up.
fn agent(tools: &[DynamicTool]) -> (MockCompletionModel, Agent) {
    let call =
        |round| MockTurn::tool_call(format!("call_{round}"), "echo", json!({ "text": format!("hello {round}") }));
    let turns = (1..ROUNDS).map(call).chain(std::iter::once(MockTurn::text("That is all.")));
    let model = MockCompletionModel::from_turns(turns);
    let builder = AgentBuilder::new(model.clone()).preamble("You are helpful.");
    (model, builder.dynamic_tools(tools.to_vec()).build())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = env::args().skip(1).collect();
    let [row, count] = words.as_slice() else {
        return Err("usage: rounds ROW COUNT".into());
    };
    let tools = tools(row.trim_start_matches("agent-").parse()?)?;
    let mut samples = Vec::new();
    for _ in 0..count.parse::<usize>()? {
        let (model, agent) = agent(&tools);
        let began = Instant::now();
        let answer = agent.prompt("Say it.").max_turns(usize::try_from(ROUNDS)?).await?;
        samples.push(began.elapsed() / ROUNDS);
        if answer.output() != "That is all." || model.request_count() != usize::try_from(ROUNDS)? {
            return Err("the turn went otherwise".into());
        }
    }
    samples.sort_unstable();
    let middle = samples.get(samples.len() / 2).map_or(0.0, |middle: &Duration| middle.as_secs_f64() * 1e6);
    println!("{}", json!({ "p50_us": middle }));
    Ok(())
}
