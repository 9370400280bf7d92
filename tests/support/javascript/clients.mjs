// Every JavaScript client of ours without its framework: one JSON line in (a wish), one out (what ran, what was said).
// {client, url, run, calls: [{tool, id, args, more}], how, seconds}; how: one after the other, `parallel`, or `nested`.
import { AsyncLocalStorage } from 'node:async_hooks';
import readline from 'node:readline';
import { digest } from './toolcards/gate-answers.mjs';
import { gated, needsApproval, runs, toolApproval } from './toolcards/ai-sdk.mjs';
import { gate } from './toolcards/tanstack.mjs';

// Clocks that run faster, so that tests need not wait as long as the clients do: timers by `haste`, time by its square.
// Timers that give up a server that is gone run as they are, so that a busy machine does not count as one; SIGUSR2
// shortens those that run now: then the server has the request.
let haste = 1;
const LONG = 10_000; // ms
const [timer, clear, time] = [globalThis.setTimeout, globalThis.clearTimeout, performance.now.bind(performance)];
const long = new Map(); // each long timer: its milliseconds, and its work
globalThis.setTimeout = (work, ms = 0, ...more) => {
  if (ms < LONG) return timer(work, ms / haste, ...more);
  const end = () => long.delete(one) && (clear(one), work(...more));
  const one = timer(end, ms);
  long.set(one, [ms, end]);
  return one;
};
globalThis.clearTimeout = (one) => { long.delete(one); clear(one); };
process.on('SIGUSR2', () => long.forEach(([ms, end]) => timer(end, ms / haste)));
performance.now = () => time() * haste * haste;

let stop = new AbortController(); // of the run that is played
process.on('SIGHUP', () => stop.abort());

// What a former play still sends fails: the port of its server may be that of the next one.
const playing = new AsyncLocalStorage();
let plays = 0;
const send = globalThis.fetch;
globalThis.fetch = (...request) => (
  (playing.getStore() ?? plays) === plays ? send(...request) : Promise.reject(Object.assign(new Error('a former play'), { status: 400 })));

const CLIENTS = {
  runs: (options) => (call, execute) => runs({ tool: call.tool, callId: call.id, args: call.args }, options, execute),
  gated: (options) => (call, execute) => {
    const tools = gated({ [call.tool]: { execute, ...schemaOf(call) } }, options);
    return tools[call.tool].execute(call.args, { toolCallId: call.id });
  },
  toolApproval: (options) => {
    const judge = toolApproval(options);
    return async (call, execute) => {
      const toolCall = { toolName: call.tool, toolCallId: call.id, input: call.args };
      const said = await judge({ toolCall });
      if (said !== 'not-applicable' && said.type !== 'approved') throw new Error(said.reason);
      return execute(call.args);
    };
  },
  needsApproval: (options) => async (call, execute) => {
    if (await needsApproval(call.tool, options)(call.args, { toolCallId: call.id })) throw new Error('not decided');
    return execute(call.args);
  },
  tanstack: (options) => {
    const middleware = gate(options);
    return async (call, execute) => {
      const about = { toolName: call.tool, toolCallId: call.id, args: call.args, tool: schemaOf(call) };
      const said = await middleware.onBeforeToolCall({}, about);
      if (said?.type === 'skip') throw new Error(said.result.error);
      const output = await execute(said?.type === 'transformArgs' ? said.args : call.args);
      middleware.onAfterToolCall({}, { ...about, ok: true, result: output });
      return output;
    };
  },
  opencode: (options) => {
    const hooks = plugIn();
    const stopped = { type: 'session.error', properties: { sessionID: options.run, error: { name: 'MessageAbortedError' } } };
    options.signal.addEventListener('abort', async () => (await hooks).event({ event: stopped })); // as the program says it
    return async (call, execute) => {
      const output = { args: structuredClone(call.args) };
      await (await hooks)['tool.execute.before']({ tool: call.tool, sessionID: options.run, callID: call.id }, output);
      return execute(output.args);
    };
  },
};

// A tool's schema in the words of Standard Schema: only these keys, where the wish names any.
const schemaOf = ({ only, schema }) => (schema ? { inputSchema: { jsonSchema: schema } } : only ? { inputSchema: { '~standard': { version: 1, vendor: 'test', validate: (value) => (
  Object.keys(value).every((key) => only.includes(key)) ? { value } : { issues: [{ message: 'another key' }] }) } } } : {});

async function plugIn() {
  const { Toolcards } = await import(`./plugin/toolcards.js?${process.env.TOOLCARDS_URL}`);
  return Toolcards({ client: { session: { get: async () => ({ data: undefined }) } } });
}

const digestOf = async (text) => digest(JSON.parse(text));
const digests = (texts) => Promise.all(texts.map((text) => digestOf(text).catch((error) => `refused: ${error.message}`)));

async function play(wish) {
  if (wish.digests) return { digests: await digests(wish.digests) };
  haste = wish.haste ?? 1;
  process.env.TOOLCARDS_URL = wish.url;
  process.env.TOOLCARDS_AGENT_KEY = wish.key ?? 'key';
  const ran = [], said = [];
  stop = new AbortController();
  const client = CLIENTS[wish.client]({ run: wish.run, seconds: wish.seconds ?? 60, signal: stop.signal });
  const call = async (one, rest = []) => {
    const execute = async (args) => {
      ran.push([one.tool, args]);
      if (rest.length) await call(rest[0], rest.slice(1));
      return one.tool;
    };
    await client(one, execute).catch((error) => said.push(error.message));
  };
  if (wish.mutate) setTimeout(() => Object.assign(wish.calls[0].args, wish.mutate), 100);
  if (wish.how === 'parallel') await Promise.all(wish.calls.map((one) => call(one)));
  else if (wish.how === 'nested') await call(wish.calls[0], wish.calls.slice(1));
  else for (const one of wish.calls) await call(one);
  return { ran, said };
}

for await (const line of readline.createInterface({ input: process.stdin })) {
  plays += 1;
  console.log(JSON.stringify(await playing.run(plays, () => play(JSON.parse(line)))));
}
