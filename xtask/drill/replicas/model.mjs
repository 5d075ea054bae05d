// A model that has a tool called with the last message of a user, and then says what the tool has said. It writes its address on a line.

import { createServer } from "node:http";

const TOOL = "mcp__shared__echo";

/** What the model answers to the messages. */
function answer(messages) {
  const last = messages.at(-1);
  if (last.role === "tool") return { content: String(last.content) };
  const call = { name: TOOL, arguments: JSON.stringify({ text: last.content }) };
  return { tool_calls: [{ index: 0, id: `call${messages.length}`, type: "function", function: call }] };
}

const chunk = (choice, more = {}) => `data: ${JSON.stringify({ choices: [{ index: 0, ...choice }], ...more })}\n\n`;

const server = createServer(async (request, response) => {
  let body = "";
  for await (const piece of request) body += piece;
  const delta = answer(JSON.parse(body).messages);
  const reason = delta.tool_calls ? "tool_calls" : "stop";
  response.writeHead(200, { "content-type": "text/event-stream" });
  response.write(chunk({ delta: { role: "assistant", ...delta } }));
  response.write(chunk({ delta: {}, finish_reason: reason }, { usage: { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 } }));
  response.end("data: [DONE]\n\n");
});
server.keepAliveTimeout = 600_000;
server.listen(0, "127.0.0.1", () => console.log(`http://127.0.0.1:${server.address().port}/v1`));
process.stdin.resume();
process.stdin.on("end", () => process.exit(0));
