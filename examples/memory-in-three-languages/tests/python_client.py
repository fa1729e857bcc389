"""The Python SDK's own client, started as a script: it makes a graph of its own and takes it apart again."""

import asyncio

from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

SERVER = StdioServerParameters(command="node", args=["node_modules/@modelcontextprotocol/server-memory/dist/index.js"])


async def main() -> None:
    async with Client(stdio_client(SERVER)) as client:
        entities = [
            {"name": "Grace", "entityType": "person", "observations": ["found a moth", "taught a compiler"]},
            {"name": "Moth", "entityType": "insect", "observations": []},
        ]
        await client.call_tool("create_entities", {"entities": entities})
        relation = {"from": "Grace", "to": "Moth", "relationType": "found"}
        await client.call_tool("create_relations", {"relations": [relation]})
        for name, arguments in (
            ("delete_observations", {"deletions": [{"entityName": "Grace", "observations": ["found a moth"]}]}),
            ("delete_relations", {"relations": [relation]}),
            ("delete_entities", {"entityNames": ["Grace", "Moth"]}),
        ):
            result = await client.call_tool(name, arguments)
            assert not result.is_error, (name, result)


asyncio.run(main())
