//! The client of the official TypeScript SDK 1.x, which most programs use today.

use serde_json::{Value, json};
use tokio::{process::Command, time::timeout};
use toolrack_daemon::gateway::GatewayOptions;
use toolrack_host::ServerSpec;

use super::installed;
use crate::world::{PATIENCE, World};

const SCRIPT: &str = r"
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import * as types from '@modelcontextprotocol/sdk/types.js';

const capabilities = { elicitation: {}, sampling: {}, roots: {} };
const client = new Client({ name: 'test', version: '1.0.0' }, { capabilities });
client.setRequestHandler(types.ElicitRequestSchema, async () => ({ action: 'accept', content: { name: 'Ada' } }));
client.setRequestHandler(types.CreateMessageRequestSchema, async () => ({
  role: 'assistant', model: 'm', content: { type: 'text', text: 'Paris' },
}));
const changed = new Promise((resolve) => {
  client.setNotificationHandler(types.ToolListChangedNotificationSchema, () => resolve(true));
});
const transport = new StreamableHTTPClientTransport(new URL(process.argv[1]));
await client.connect(transport);
const call = async (name, args, options) => {
  const result = await client.callTool({ name: `mcp__fake__${name}`, arguments: args }, undefined, options);
  return result.content[0].text;
};
const progress = [];
const said = {
  tools: (await client.listTools()).tools.length,
  echo: await call('echo', { text: 'grüße' }),
  structured: await call('structured', { label: 'x' }),
  slept: await call('sleep', { ms: 300, progress: true }, { onprogress: (report) => progress.push(report.progress) }),
  progress,
  elicited: await call('elicit', {}),
  sampled: await call('sample', {}),
  resources: (await client.listResources()).resources.map((resource) => resource.uri),
  note: (await client.readResource({ uri: 'fake://note' })).contents[0].text,
  prompts: (await client.listPrompts()).prompts.map((prompt) => prompt.name),
  greeting: (await client.getPrompt({ name: 'mcp__fake__greet', arguments: { name: 'Ada' } })).messages[0].content.text,
  completed: (await client.complete({
    ref: { type: 'ref/prompt', name: 'mcp__fake__greet' }, argument: { name: 'name', value: 'a' },
  })).completion.values,
  ping: await client.ping(),
};
await call('tools_changed', { add: 'new' });
said.changed = await changed;
await transport.terminateSession();
await client.close();
console.log(JSON.stringify(said));
";

#[tokio::test]
async fn the_client_of_the_typescript_sdk_does_all_that_it_can() {
    for era in ["legacy", "modern"] {
        let world = World::new(&format!("--era {era}")).await;
        let script = Command::new(installed().join(".bin/node"))
            .args(["--input-type=module", "--eval", SCRIPT, &world.url])
            .current_dir(installed().join(".."))
            .kill_on_drop(true)
            .output();
        let output = timeout(PATIENCE, script).await.expect("an end").unwrap();
        let complaint = String::from_utf8_lossy(&output.stderr);
        let printed: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{era}: {complaint}"));
        assert_eq!(printed["tools"], world.host.catalog().tools().len() - 1, "{era}: one has come since: {printed}");
        assert_eq!(printed["echo"], "grüße");
        assert_eq!(printed["progress"], json!([100, 200, 300]), "{era}");
        assert!(printed["elicited"].as_str().unwrap().contains("Ada"), "{era}: {printed}");
        assert!(printed["sampled"].as_str().unwrap().contains("Paris"), "{era}: {printed}");
        assert_eq!(printed["resources"], json!(["fake://asked", "fake://blob", "fake://note"]));
        assert_eq!(printed["note"], "a note");
        assert_eq!(printed["prompts"], json!(["mcp__fake__asked", "mcp__fake__greet"]));
        assert_eq!(printed["greeting"], "Say hello to Ada.");
        assert_eq!(printed["completed"], json!(["ada", "alan"]));
        assert_eq!(printed["changed"], true);
        world.end().await;
    }
}

const SUBSCRIBER: &str = r"
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import * as types from '@modelcontextprotocol/sdk/types.js';

const client = new Client({ name: 'test', version: '1.0.0' }, { capabilities: {} });
const updated = new Promise((resolve) => {
  client.setNotificationHandler(types.ResourceUpdatedNotificationSchema, ({ params }) => resolve(params.uri));
});
const transport = new StreamableHTTPClientTransport(new URL(process.argv[1]));
await client.connect(transport);
const uri = (await client.listResources()).resources[0].uri;
await client.subscribeResource({ uri });
await client.callTool({ name: 'mcp__everything__toggle-subscriber-updates', arguments: {} });
const said = { offered: client.getServerCapabilities().resources.subscribe, uri, updated: await updated };
await client.unsubscribeResource({ uri });
await transport.terminateSession();
await client.close();
console.log(JSON.stringify(said));
";

#[tokio::test]
async fn the_client_of_the_typescript_sdk_hears_of_resources_of_the_reference_server() {
    let script = installed().join("@modelcontextprotocol/server-everything/dist/index.js");
    let spec = ServerSpec::stdio(installed().join(".bin/node").to_str().unwrap(), [script.to_str().unwrap()]);
    let world = World::with([("everything", spec)], GatewayOptions::default()).await;
    let script = Command::new(installed().join(".bin/node"))
        .args(["--input-type=module", "--eval", SUBSCRIBER, &world.url])
        .current_dir(installed().join(".."))
        .kill_on_drop(true)
        .output();
    let output = timeout(PATIENCE, script).await.expect("an end").unwrap();
    let complaint = String::from_utf8_lossy(&output.stderr);
    let printed: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{complaint}"));
    assert_eq!(printed["offered"], true, "{printed}");
    assert_eq!(printed["updated"], printed["uri"], "{printed}");
    world.end().await;
}
