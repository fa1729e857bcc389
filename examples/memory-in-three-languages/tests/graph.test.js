// A suite as it stands in many repositories: the official client, a server that it starts by itself, no word of mcp-rollcall.
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { afterAll, beforeAll, expect, test } from "vitest";

const client = new Client({ name: "graph-tests", version: "1.0.0" });

beforeAll(async () => {
  const args = ["node_modules/@modelcontextprotocol/server-memory/dist/index.js"];
  await client.connect(new StdioClientTransport({ command: "node", args }));
});

afterAll(() => client.close());

test("entities and relations are created", async () => {
  const entities = [
    { name: "Ada", entityType: "person", observations: [] },
    { name: "Engine", entityType: "machine", observations: [] },
  ];
  const made = await client.callTool({ name: "create_entities", arguments: { entities } });
  expect(made.structuredContent).toEqual({ entities });
  const relations = [{ from: "Ada", to: "Engine", relationType: "programmed" }];
  const tied = await client.callTool({ name: "create_relations", arguments: { relations } });
  expect(tied.structuredContent).toEqual({ relations });
});

test("an observation is added to what is there, and refused elsewhere", async () => {
  const observe = (entityName) => ({
    name: "add_observations",
    arguments: { observations: [{ entityName, contents: ["wrote the first program"] }] },
  });
  const added = await client.callTool(observe("Ada"));
  expect(added.structuredContent.results[0].addedObservations).toEqual(["wrote the first program"]);
  const refused = await client.callTool(observe("Nobody"));
  expect(refused.isError).toBe(true);
});
