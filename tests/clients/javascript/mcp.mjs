// One call by a client of the official TypeScript SDK over stdio, with its own time limit. Reads one JSON line:
// {scenario: sdk|client, command, env, tool, args}; prints one line: the text, whether it is an error, and how often it
// was called: a model calls again while the text says that the call waits.
import readline from 'node:readline';

const lines = readline.createInterface({ input: process.stdin });
const { scenario, command, env, tool, args } = JSON.parse(await new Promise((heard) => lines.once('line', heard)));
lines.close();
const [{ Client }, { StdioClientTransport }] = scenario === 'sdk'
  ? [await import('@modelcontextprotocol/sdk/client/index.js'), await import('@modelcontextprotocol/sdk/client/stdio.js')]
  : [await import('@modelcontextprotocol/client'), await import('@modelcontextprotocol/client/stdio')];
const negotiation = scenario === 'sdk' ? {} : { versionNegotiation: { mode: 'auto' } };
const client = new Client({ name: 'mcp-test', version: '1.0.0' }, negotiation);
await client.connect(new StdioClientTransport({ command: command[0], args: command.slice(1), env: { ...process.env, ...env } }));
await client.listTools();
let text, result, calls = 0;
try {
  do {
    calls += 1;
    result = await client.callTool({ name: tool, arguments: args });
    text = result.content.map((part) => part.text ?? '').join('');
  } while (text.startsWith('Waiting for approval'));
} catch (error) {
  text = String(error);
}
console.log(JSON.stringify({ text, isError: result?.isError ?? false, calls, version: client.getNegotiatedProtocolVersion?.() ?? '' }));
await client.close();
