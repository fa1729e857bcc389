// The official TypeScript SDK's client, driven as bench/clients.py is: node client.mjs NODE_MODULES [--once] -- SERVER…
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";
import { join } from "node:path";

const [modules, ...rest] = process.argv.slice(2);
const argv = rest.slice(rest.indexOf("--") + 1);
const sdk = (path) => import(pathToFileURL(join(modules, "@modelcontextprotocol/sdk/dist/esm/client", path)).href);
const { Client } = await sdk("index.js");
const { StdioClientTransport } = await sdk("stdio.js");

const client = new Client({ name: "bench", version: "1" });
await client.connect(new StdioClientTransport({ command: argv[0], args: argv.slice(1), env: process.env }));
await client.listTools();

const call = (name, args) => client.callTool({ name, arguments: args }, undefined, { timeout: 300_000 });

if (rest[0] === "--once") {
  await call("echo", { text: "hello" });
  await client.close();
  process.exit(0);
}

console.log(JSON.stringify({ ready: true }));
for await (const line of createInterface({ input: process.stdin })) {
  const { tool, arguments: args, calls, at_once: atOnce } = JSON.parse(line);
  let left = calls;
  const worker = async () => {
    while (left-- > 0) await call(tool, args);
  };
  const began = performance.now();
  await Promise.all(Array.from({ length: atOnce }, worker));
  console.log(JSON.stringify({ seconds: (performance.now() - began) / 1000 }));
}
await client.close();
