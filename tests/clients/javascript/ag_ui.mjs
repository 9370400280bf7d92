// One thread with the real AG-UI client (HttpAgent, which checks the order of events) against an endpoint.
// Reads one JSON line: {scenario, url, key, base, run, answers, decisions, wait, abort}; prints one line: what happened.
import readline from 'node:readline';
import { HttpAgent } from '@ag-ui/client';

const lines = readline.createInterface({ input: process.stdin });
const heard = () => new Promise((line) => lines.once('line', line));
const wish = JSON.parse(await heard());
const authorization = `Bearer ${wish.key}`;
const agent = new HttpAgent({ url: wish.url, threadId: wish.run, headers: { authorization } });
agent.addMessage({ id: 'u1', role: 'user', content: `run ${wish.scenario}` });
const errors = [], events = [];
let asked = [];
const listener = {
  onEvent: ({ event }) => { events.push(event.type); },
  onRunFailed: ({ error }) => { errors.push(error.message); },
  onRunErrorEvent: ({ event }) => { errors.push(event.message); },
  onRunFinishedEvent: ({ event }) => { asked = event.outcome?.interrupts ?? []; },
};
let turn = 0;
const go = (more = {}) => agent.runAgent({ runId: `${wish.run}-${++turn}`, ...more }, listener).catch((error) => errors.push(error.message));
if (wish.abort) heard().then(() => agent.abortRun());
await go();
if (wish.wait) { // answered in Toolcards: ask until everything is, then send it on
  for (let told = { waiting: 1 }; told.waiting;) {
    told = await (await fetch(`${wish.url}/resume?run=${wish.run}&wait=25`, { headers: { authorization } })).json();
    if (!told.waiting) await go({ resume: told.resume });
  }
} else if (wish.decisions) { // LangGraph's own way to answer a batch, whatever the run's end told
  agent.pendingInterrupts = [];
  await go({ forwardedProps: { command: { resume: { decisions: wish.decisions } } } });
} else if (asked.length) {
  await go({ resume: asked.map((one) => ({ interruptId: one.id, ...wish.answers[one.toolCallId] })) });
}
const saw = Object.fromEntries(agent.messages.filter((message) => message.role === 'tool').map((message) => [message.toolCallId, message.content]));
console.log(JSON.stringify({ errors, events, saw, turns: turn }));
process.exit(0);
