// Text for other programs, which never contains a hidden value as if it were the real one.

import assert from "node:assert/strict";
import { test } from "node:test";
import { commandFor, entryFor, quoted } from "../../../assets/copy.js";

const STDIO = {
  command: "npx",
  args: ["-y", "a server"],
  env: { API_KEY: "***", REGION: "${REGION}", MODE: "fast" },
  timeout: 5,
  cwd: null,
};
const HTTP = {
  type: "http",
  url: "https://example.com/mcp",
  headers: { Authorization: "Bearer ***", "X-Org": "${ORG}", "X-Plain": 'a "b"' },
};

test("claude_gets_an_mcp_json_with_placeholders_in_the_place_of_what_is_hidden", () => {
  assert.deepEqual(JSON.parse(entryFor("claude", "a b", STDIO)), {
    mcpServers: {
      "a b": {
        type: "stdio",
        command: "npx",
        args: ["-y", "a server"],
        env: { API_KEY: "${API_KEY}", REGION: "${REGION}", MODE: "fast" },
      },
    },
  });
  assert.deepEqual(
    JSON.parse(entryFor("claude", "x", HTTP)).mcpServers.x.headers.Authorization,
    "Bearer ${AUTHORIZATION}",
  );
});

test("vs_code_gets_its_own_kind_of_placeholders", () => {
  const { servers } = JSON.parse(entryFor("vscode", "x", STDIO));
  assert.deepEqual(servers.x.env, { API_KEY: "${env:API_KEY}", REGION: "${env:REGION}", MODE: "fast" });
  assert.equal(servers.x.type, "stdio");
});

test("codex_is_told_the_names_of_variables_since_it_fills_in_no_placeholders", () => {
  assert.equal(
    entryFor("codex", "x", STDIO),
    `[mcp_servers.x]
command = "npx"
args = ["-y", "a server"]
env_vars = ["API_KEY", "REGION"]

[mcp_servers.x.env]
MODE = "fast"
`,
  );
  assert.equal(
    entryFor("codex", "dotted.name", HTTP),
    `[mcp_servers."dotted.name"]
url = "https://example.com/mcp"
bearer_token_env_var = "AUTHORIZATION"

[mcp_servers."dotted.name".http_headers]
X-Plain = "a \\"b\\""

[mcp_servers."dotted.name".env_http_headers]
X-Org = "ORG"
`,
  );
});

test("no_format_passes_a_hidden_value_on", () => {
  const entry = {
    command: "x",
    args: ["--token=***"],
    env: { "my key": "pre***post" },
    headers: { A: "***" },
    url: "https://h/?key=***",
  };
  for (const format of ["claude", "vscode", "codex"])
    assert.doesNotMatch(entryFor(format, "n", entry), /\*\*\*/, format);
});

test("a_placeholder_that_only_toolrack_knows_becomes_a_variable", () => {
  const entry = {
    command: "npx",
    args: ["--token=${secret:github.com}", "${user:other}", "$${secret:plain}"],
    env: { GITHUB_TOKEN: "${secret:github}", BOTH: "${secret:a}:${user:b}" },
  };
  const { args, env } = JSON.parse(entryFor("claude", "x", entry)).mcpServers.x;
  assert.deepEqual(args, ["--token=${GITHUB_COM}", "${OTHER}", "$${secret:plain}"]);
  assert.deepEqual(env, { GITHUB_TOKEN: "${GITHUB_TOKEN}", BOTH: "${A}:${B}" });
  assert.equal(JSON.parse(entryFor("vscode", "x", entry)).servers.x.env.GITHUB_TOKEN, "${env:GITHUB_TOKEN}");
  assert.match(entryFor("codex", "x", entry), /^env_vars = \["GITHUB_TOKEN"\]$/m);
  const remote = { url: "https://h/mcp", headers: { Authorization: "Bearer ${user:GITHUB_TOKEN}" } };
  assert.match(entryFor("codex", "x", remote), /^bearer_token_env_var = "GITHUB_TOKEN"$/m);
});

test("a_command_line_is_quoted_for_a_shell", () => {
  assert.equal(commandFor("fs", "read", {}), "toolrack call fs/read");
  assert.equal(
    commandFor("fs", "read", { path: "it's; rm -rf $HOME" }),
    `toolrack call fs/read --args '{"path":"it'\\''s; rm -rf $HOME"}'`,
  );
  assert.equal(commandFor("my server", "read", undefined), "toolrack call 'my server/read'");
  assert.equal(quoted(""), "''");
  assert.equal(quoted("a\nb"), "'a\nb'");
});
