//! The client of the official Python SDK, in both eras.

use std::path::Path;

use serde_json::{Value, json};
use tokio::{process::Command, time::timeout};

use crate::world::{PATIENCE, World};

const SCRIPT: &str = r#"
import asyncio, json, sys
from mcp import Client, types

async def elicit(context, params):
    return types.ElicitResult(action="accept", content={"name": "Ada"})

async def sample(context, params):
    text = types.TextContent(type="text", text="Paris")
    return types.CreateMessageResult(role="assistant", model="m", content=text)

async def main():
    url, era = sys.argv[1:]
    answers = {"elicitation_callback": elicit, "sampling_callback": sample}
    async with Client(url, mode=era, **answers) as client:
        async def call(tool, arguments, **more):
            return (await client.call_tool("mcp__fake__" + tool, arguments, **more)).content[0].text
        reports = []
        async def report(progress, total, message):
            reports.append(progress)
        said = {
            "tools": len((await client.list_tools()).tools),
            "echo": await call("echo", {"text": "grüße"}),
            "slept": await call("sleep", {"ms": 300, "progress": True}, progress_callback=report),
            "progress": reports,
            "elicited": await call("elicit", {}),
            "sampled": await call("sample", {}),
            "note": (await client.read_resource("fake://note")).contents[0].text,
            "greeting": (await client.get_prompt("mcp__fake__greet", {"name": "Ada"})).messages[0].content.text,
        }
        print(json.dumps(said))

asyncio.run(main())
"#;

#[tokio::test]
async fn the_client_of_the_python_sdk_does_all_that_it_can_in_both_eras() {
    let python = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.cache/venv/bin/python");
    let world = World::new("--era both").await;
    for era in ["legacy", "auto"] {
        let script = Command::new(&python).args(["-c", SCRIPT, &world.url, era]).kill_on_drop(true).output();
        let output = timeout(PATIENCE, script).await.expect("an end").unwrap();
        let complaint = String::from_utf8_lossy(&output.stderr);
        let printed: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{era}: {complaint}"));
        assert_eq!(printed["tools"], world.host.catalog().tools().len(), "{era}: {printed}");
        assert_eq!(printed["echo"], "grüße", "{era}");
        assert_eq!(printed["progress"], json!([100.0, 200.0, 300.0]), "{era}");
        assert!(printed["elicited"].as_str().unwrap().contains("Ada"), "{era}: {printed}");
        assert!(printed["sampled"].as_str().unwrap().contains("Paris"), "{era}: {printed}");
        assert_eq!(printed["note"], "a note", "{era}");
        assert_eq!(printed["greeting"], "Say hello to Ada.", "{era}");
    }
    world.end().await;
}
