// The official TypeScript SDK as a client: node clients.mjs SUITE JSON
// JSON: {sdk: "v1" | "v2", era: "legacy" | "modern", command, args, cwd} or {..., url, token}
// Prints one JSON object: what each request gave.
import { createRequire } from "node:module";

const [, , suite, text] = process.argv;
const wanted = JSON.parse(text);
const load = createRequire(`${suite}/package.json`);

function parts() {
  if (wanted.sdk === "v1") {
    const base = "@modelcontextprotocol/sdk/client";
    return {
      Client: load(`${base}/index.js`).Client,
      Stdio: load(`${base}/stdio.js`).StdioClientTransport,
      Http: load(`${base}/streamableHttp.js`).StreamableHTTPClientTransport,
    };
  }
  const main = load("@modelcontextprotocol/client");
  const stdio = load("@modelcontextprotocol/client/stdio");
  return {
    Client: main.Client,
    Stdio: stdio.StdioClientTransport,
    Http: main.StreamableHTTPClientTransport,
  };
}

const { Client, Stdio, Http } = parts();
const mode = wanted.era === "modern" ? { pin: "2026-07-28" } : "legacy";
const options = wanted.sdk === "v1" ? {} : { versionNegotiation: { mode } };
const client = new Client({ name: "outsider", version: "1" }, options);
const headers = wanted.token ? { Authorization: `Bearer ${wanted.token}` } : {};
const transport = wanted.url
  ? new Http(new URL(wanted.url), { requestInit: { headers } })
  : new Stdio({ command: wanted.command, args: wanted.args, cwd: wanted.cwd, env: process.env });
await client.connect(transport);

const listed = await client.listTools();
const good = await client.callTool({
  name: "recommend_fix",
  arguments: { speedup: 0.3, occupancy: 0.4 },
});
const bad = await client.callTool({ name: "recommend_fix", arguments: { metrics: { nope: 1 } } });
const resources = (await client.listResources()).resources;
const prompts = (await client.listPrompts()).prompts;
const read = resources.length ? await client.readResource({ uri: resources[0].uri }) : null;
const plain = prompts.find((one) => !(one.arguments ?? []).some((each) => each.required));
const got = plain ? await client.getPrompt({ name: plain.name }) : null;
await client.close();

console.log(
  JSON.stringify({
    tools: listed.tools.map((one) => one.name),
    good: { error: good.isError ?? false, structured: good.structuredContent ?? null },
    bad: { error: bad.isError ?? false, text: bad.content[0].text, structured: bad.structuredContent ?? null },
    resource: read ? read.contents[0].text.length : null,
    prompt: got ? got.messages.length : null,
    resources: resources.length,
    prompts: plain ? 1 : 0,
  }),
);
process.exit(0);
