# The Inspector's command line, as a smoke test: one call, and what it must say.
set -eu
node_modules/.bin/mcp-inspector --cli node node_modules/@modelcontextprotocol/server-memory/dist/index.js \
  --method tools/call --tool-name read_graph | grep -q '"entities"'
