// The OAuth client of a TypeScript SDK: node sdk_client.mjs MODULES VERSION URL TOOL

import { execFileSync } from "node:child_process";
import { createServer } from "node:http";
import { createRequire } from "node:module";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const [modules, version, url, tool] = process.argv.slice(2);
const { resolve } = createRequire(join(modules, "packages.js"));
const load = (/** @type {string} */ name) => import(pathToFileURL(resolve(name)).href);
const { Client, StreamableHTTPClientTransport, UnauthorizedError } =
  version === "1"
    ? {
        ...(await load("@modelcontextprotocol/sdk/client/index.js")),
        ...(await load("@modelcontextprotocol/sdk/client/streamableHttp.js")),
        ...(await load("@modelcontextprotocol/sdk/client/auth.js")),
      }
    : await load("@modelcontextprotocol/client");

/** @type {(answer: URLSearchParams) => void} */
let heard = () => {};
const answer = new Promise((found) => (heard = found));
const back = createServer((request, response) => {
  response.end("done");
  const { searchParams } = new URL(request.url ?? "/", "http://127.0.0.1");
  if (searchParams.has("code")) heard(searchParams);
});
await new Promise((listens) => back.listen(0, "127.0.0.1", () => listens(undefined)));
const { port } = /** @type {import("node:net").AddressInfo} */ (back.address());

/** @type {Record<string, any>} */
const kept = {};
const authProvider = {
  redirectUrl: `http://127.0.0.1:${port}/callback`,
  clientMetadata: { client_name: `TypeScript SDK ${version}`, redirect_uris: [`http://127.0.0.1:${port}/callback`] },
  clientInformation: () => kept.client,
  saveClientInformation: (/** @type {any} */ client) => (kept.client = client),
  tokens: () => kept.tokens,
  saveTokens: (/** @type {any} */ tokens) => (kept.tokens = tokens),
  redirectToAuthorization: (/** @type {URL} */ place) => execFileSync("xdg-open", [place.href]),
  saveCodeVerifier: (/** @type {string} */ verifier) => (kept.verifier = verifier),
  codeVerifier: () => kept.verifier,
};

const connect = async () => {
  const client = new Client({ name: "a client", version: "1" });
  const transport = new StreamableHTTPClientTransport(new URL(url), { authProvider });
  try {
    await client.connect(transport);
    return client;
  } catch (error) {
    if (!(error instanceof UnauthorizedError)) throw error;
    const parameters = await answer;
    // Version 2 judges the whole answer, with its issuer (RFC 9207).
    await transport.finishAuth(version === "1" ? parameters.get("code") : parameters);
    return null;
  }
};

const client = (await connect()) ?? (await connect());
const result = await client.callTool({ name: tool, arguments: { text: "from a client" } });
console.log(result.content[0].text);
await client.close();
back.close();
