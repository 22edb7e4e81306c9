// A client of the TypeScript SDK, 1.x or 2.x: reads what to do as JSON on its standard input and
// writes what came of each step as JSON. Run with node; `folder` holds the SDK's node_modules.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const plan = JSON.parse(readFileSync(0, "utf8"));
const resolve = createRequire(`${plan.folder}/package.json`).resolve;
const load = (name) => import(pathToFileURL(resolve(name)));

async function connect() {
  const info = { name: "typescript-test", version: "1" };
  if (plan.sdk === 1) {
    const { Client } = await load("@modelcontextprotocol/sdk/client/index.js");
    const { StdioClientTransport } = await load("@modelcontextprotocol/sdk/client/stdio.js");
    return [new Client(info, {}), new StdioClientTransport(plan.server)];
  }
  const { Client } = await load("@modelcontextprotocol/client");
  const { StdioClientTransport } = await load("@modelcontextprotocol/client/stdio");
  const options = { versionNegotiation: { mode: plan.mode } };
  return [new Client(info, options), new StdioClientTransport(plan.server)];
}

const steps = {
  list: (client) => client.listTools(),
  call: (client, step) => client.callTool({ name: step.name, arguments: step.arguments ?? {} }),
  follow: (client, step, last) =>
    client.readResource({ uri: last.content.find((block) => block.type === "resource_link").uri }),
};

const [client, transport] = await connect();
await client.connect(transport);
const outcomes = [];
for (const step of plan.steps) {
  try {
    outcomes.push({ result: await steps[step.do](client, step, outcomes.at(-1)?.result) });
  } catch (error) {
    outcomes.push({ error: String(error?.message ?? error) });
  }
}
await client.close();
process.stdout.write(JSON.stringify(outcomes));
