// The official TypeScript SDK: lists every tool and makes the calls of calls.json, over one transport.
//   node every_tool.mjs calls.json URL | node every_tool.mjs calls.json COMMAND ARGUMENT...
// It prints the names of the tools that it called, as JSON, and fails where an answer is not what the tool promises:
// the SDK checks each against the schema that the server published.
import { readFileSync } from "node:fs";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";

const [calls, target, ...rest] = process.argv.slice(2);
const client = new Client({ name: "conformance", version: "1" });
const transport = target.startsWith("http")
  ? new StreamableHTTPClientTransport(new URL(target))
  : new StdioClientTransport({ command: target, args: rest, env: process.env });
await client.connect(transport);

const listed = new Set((await client.listTools()).tools.map((tool) => tool.name));
const called = new Set();
const known = {};
const filled = (value) =>
  typeof value === "string" && value.startsWith("$") ? known[value.slice(1)]
  : Array.isArray(value) ? value.map(filled)
  : value && typeof value === "object"
    ? Object.fromEntries(Object.entries(value).map(([name, inner]) => [name, filled(inner)]))
  : value;

for (const [name, args, keep] of JSON.parse(readFileSync(calls, "utf8"))) {
  let result;
  // a status is asked for until nothing runs any more
  do result = await client.callTool({ name, arguments: filled(args) });
  while (name === "migration_status" && result.structuredContent?.job?.running);
  if (result.isError || !result.structuredContent) throw new Error(`${name}: ${JSON.stringify(result)}`);
  if (keep) known[keep] = result.structuredContent.id_str ?? result.structuredContent.request_id;
  called.add(name);
}
const left = [...listed].filter((name) => !called.has(name));
if (left.length) throw new Error(`not called: ${left}`);

let refused = false;
try {
  await client.callTool({ name: "remember", arguments: { fact: "" } });
} catch (error) {
  refused = error.code === -32602;
}
if (!refused) throw new Error("an empty fact was not refused with -32602");
await client.close();
console.log(JSON.stringify([...called].sort()));
