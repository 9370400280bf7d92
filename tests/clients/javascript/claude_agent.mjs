// An app on the real Claude Agent SDK for TypeScript: one prompt, told what to do by lines, as agents/claude_agent.py is.
//
// The first line is {"prompt", "session", "host", "isolated", "settings", "allowed"}; a later line `interrupt` stops the
// turn, `allow` and `deny` answer what the callback was asked. `host`: "wait" for such a line, "gate" to ask Toolcards in
// `canUseTool`, "hooks" to ask it in a hook of the app's own process, "" for neither.
import { createInterface } from 'node:readline';
import { query } from '@anthropic-ai/claude-agent-sdk';
import { canUseTool, hooks } from './gate.mjs';

const tell = (said) => console.log(JSON.stringify(said));
const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
const wish = JSON.parse((await lines.next()).value);
const answers = [];
const asking = [];

async function host(tool, input, about) {
  tell({ asked: tool, call: about.toolUseID });
  if (wish.host === 'gate') return canUseTool(wish.session)(tool, input, about);
  const withdrawn = new Promise((resolve, reject) => {
    about.signal.addEventListener('abort', () => {
      tell({ withdrawn: about.toolUseID });
      reject(new Error('withdrawn'));
    });
  });
  const answer = answers.length ? answers.shift() : new Promise((resolve) => asking.push(resolve));
  const said = await Promise.race([answer, withdrawn]);
  return said === 'allow' ? { behavior: 'allow', updatedInput: input } : { behavior: 'deny', message: 'The app said no.' };
}

let done;
const over = new Promise((resolve) => { done = resolve; });
async function* prompts() {
  const message = { role: 'user', content: wish.prompt };
  yield { type: 'user', message, parent_tool_use_id: null, session_id: wish.session };
  await over; // the connection stays open for what the callback answers
}

const going = query({
  prompt: prompts(),
  options: {
    model: 'claude-sonnet-4-5', sessionId: wish.session, cwd: process.env.PROJECT, allowedTools: wish.allowed,
    ...(['wait', 'gate'].includes(wish.host) ? { canUseTool: host } : {}),
    ...(wish.host === 'hooks' ? { hooks: hooks(wish.session) } : {}),
    ...(wish.isolated ? { settingSources: [] } : {}),
    ...(wish.settings ? { settings: wish.settings } : {}),
  },
});

(async () => {
  for await (const line of lines) {
    if (line.trim() === 'interrupt') going.interrupt();
    else if (asking.length) asking.shift()(line.trim());
    else answers.push(line.trim());
  }
})();

const results = {};
const flat = (content) => (Array.isArray(content) ? content.map((part) => part.text ?? '').join('\n') : String(content ?? ''));
for await (const message of going) {
  for (const block of Array.isArray(message.message?.content) ? message.message.content : []) {
    if (block.type === 'tool_result') results[block.tool_use_id] = [Boolean(block.is_error), flat(block.content)];
  }
  if (message.type === 'result') {
    results.end = message.subtype;
    done();
    break;
  }
}
tell({ results });
process.exit();
