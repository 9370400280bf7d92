// One chat with the real AI SDK, 6 or 7: its server (streamText), its own client (AbstractChat), a scripted model.
// Reads one JSON line: {scenario, url, key, run, gate, watch, answers, abort}; prints one line: what happened.
import http from 'node:http';
import readline from 'node:readline';
import * as ai from 'ai';
import * as aiTest from 'ai/test';
import { z } from 'zod';
import { gated, mirror, mirrorRequest, needsApproval, telemetry, toolApproval } from './ai-sdk.mjs';

const lines = readline.createInterface({ input: process.stdin });
const heard = () => new Promise((line) => lines.once('line', line));
const wish = JSON.parse(await heard());
const toldToStop = wish.abort ? heard() : undefined;
const troubles = []; // of watching
let goOnClock = () => {};
if (wish.held) { // the clock that gives up on a silent server stands still until the chat is over, however long that takes
  const lateControllers = [], timeout = AbortSignal.timeout;
  AbortSignal.timeout = () => { const controller = new AbortController(); lateControllers.push(controller); return controller.signal; };
  goOnClock = () => { AbortSignal.timeout = timeout; for (const controller of lateControllers) controller.abort(new DOMException('late', 'TimeoutError')); };
}
wish.onError = (error) => troubles.push(String(error));
const Mock = aiTest.MockLanguageModelV4 ?? aiTest.MockLanguageModelV3;
const sleep = (ms, signal) => new Promise((done, failed) => {
  const timer = setTimeout(done, ms);
  signal?.addEventListener('abort', () => (clearTimeout(timer), failed(signal.reason)));
});

// ---------------------------------------------------------------- the model
const usage = { inputTokens: { total: 1, noCache: 1, cacheRead: 0, cacheWrite: 0 }, outputTokens: { total: 1, text: 1, reasoning: 0 } };
const finish = (reason) => ({ type: 'finish', usage, finishReason: { unified: reason, raw: reason } });
const call = (id, toolName, input) => {
  const text = typeof input === 'string' ? input : JSON.stringify(input);
  const deltas = (text.match(/[\s\S]{1,7}/gu) ?? []).map((delta) => ({ type: 'tool-input-delta', id, delta }));
  return [{ type: 'tool-input-start', id, toolName }, ...deltas, { type: 'tool-input-end', id }, { type: 'tool-call', toolCallId: id, toolName, input: text }];
};
const calls = (...made) => [{ type: 'stream-start', warnings: [] }, ...made.flat(), finish('tool-calls')];
const say = (text) => [{ type: 'stream-start', warnings: [] }, { type: 'text-start', id: 't' }, { type: 'text-delta', id: 't', delta: text }, { type: 'text-end', id: 't' }, finish('stop')];
const woven = (...lists) => Array.from({ length: Math.max(...lists.map((l) => l.length)) }, (_, n) => lists.flatMap((l) => l[n] ?? [])).flat();
const SCENARIOS = {
  success: [calls(call('call_ok', 'weather', { city: 'Paris' })), say('21 C')],
  error: [calls(call('call_err', 'fail', { message: 'disk on fire' })), say('failed')],
  'empty-error': [calls(call('call_empty', 'fail', { message: '' })), say('failed')],
  unknown: [calls(call('call_u', 'no_such_tool', { x: 1 })), say('no such tool')],
  invalid: [calls(call('call_i', 'weather', { city: 42 })), say('bad input')],
  broken: [calls(call('call_b', 'weather', '{"city": "Par')), say('bad input')],
  parallel: [calls(woven(call('call_p1', 'slow', { ms: 80 }), call('call_p2', 'fail', { message: 'boom' }), call('call_p3', 'slow', { ms: 5 }))), say('two of three')],
  deny: [calls(call('call_no', 'shell', { command: 'echo forbidden' })), say('I may not')],
  ask: [calls(call('call_ask', 'shell', { command: 'echo ask' })), say('done')],
  free: [calls(call('call_free', 'shell', { command: 'exit 0' })), say('done')],
  mixed: [calls(call('call_m1', 'weather', { city: 'Rome' }), call('call_m2', 'shell', { command: 'echo forbidden' }), call('call_m3', 'shell', { command: 'echo ask' })), say('mixed')],
  chat: [calls(call('call_c1', 'delete_file', { path: '/a' }), call('call_c2', 'delete_file', { path: '/b' })), say('mixed')],
  again: [calls(call('call_0', 'weather', { city: 'A' })), calls(call('call_0', 'weather', { city: 'B' })), say('two')],
  hang: [calls(call('call_hang', 'slow', { ms: 60000 })), say('never')],
  midargs: [[{ type: 'stream-start', warnings: [] }, { type: 'tool-input-start', id: 'call_half', toolName: 'weather' }, { type: 'tool-input-delta', id: 'call_half', delta: '{"city":"Par' }, { hang: true }]],
  client: [calls(call('call_cl', 'ask_user', { question: 'ok?' })), say('thanks')],
  resume: [calls(call('call_r1', 'weather', { city: 'Paris' }), call('call_r2', 'held', { city: 'Oslo' })), calls(call('call_r3', 'weather', { city: 'Rome' })), say('three')],
  huge: [calls(call('call_h', 'big', { n: 3_000_000 })), say('big')],
  large: [calls(call('call_l', 'big', { n: 200000 })), say('big')],
};

// ---------------------------------------------------------------- the agent
const ran = [];
let goOn; // a client came back for the rest of a stream
const resumed = new Promise((done) => (goOn = done));
const runs = (name, work) => async (input, about) => (ran.push([name, input]), work(input, about));
const shape = (name, fields, work, more = {}) => ai.tool({ description: name, inputSchema: z.object(fields), ...(work ? { execute: runs(name, work) } : {}), ...more });
const v7 = !!aiTest.MockLanguageModelV4;
const own = wish.own && (async ({ command }) => command.startsWith('echo')); // the app's own wish to ask its user
const asks = wish.gate === 'needsApproval' ? { needsApproval: needsApproval('shell', wish, own) } : own ? { needsApproval: own } : {};
let tools = {
  weather: shape('weather', { city: z.string() }, async ({ city }) => ({ city, temp: 21 })),
  fail: shape('fail', { message: z.string() }, async ({ message }) => { throw new Error(message); }),
  slow: shape('slow', { ms: z.number() }, async ({ ms }, { abortSignal }) => (await sleep(ms, abortSignal), { slept: ms })),
  shell: shape('shell', { command: z.string() }, async ({ command }) => ({ ran: command }), asks),
  delete_file: shape('delete_file', { path: z.string() }, async ({ path }) => ({ deleted: path }), { needsApproval: true }),
  held: shape('held', { city: z.string() }, async ({ city }) => (await resumed, { city, temp: 4 })),
  ask_user: shape('ask_user', { question: z.string() }),
  big: shape('big', { n: z.number() }, async ({ n }) => 'x'.repeat(n)),
};
if (wish.gate === 'gated') tools = gated(tools, wish);
const approval = wish.gate === 'toolApproval' ? { toolApproval: toolApproval(wish, wish.appApproval && (() => wish.appApproval)) } : {};
const saw = {}; // what the model read of each call
let prompts = 0;
const model = new Mock({
  doStream: async ({ prompt, abortSignal }) => {
    prompts += 1;
    for (const message of prompt) if (message.role === 'tool') for (const part of message.content) if (part.type === 'tool-result') saw[part.toolCallId] = part.output;
    const turns = SCENARIOS[wish.scenario];
    const turn = turns[Math.min(prompt.filter((message) => message.role === 'assistant').length, turns.length - 1)];
    return { stream: new ReadableStream({
      async start(controller) {
        try {
          for (const part of turn) { if (part.hang) await sleep(60000, abortSignal); else controller.enqueue(part); await sleep(1); }
          controller.close();
        } catch (error) { controller.error(error); }
      },
    }) };
  },
});

const sent = []; // the bytes of each answer
const kept = { pieces: [], over: false, news: [] }; // a resumable stream, as an app stores it in addition to its answer
async function keep(stream) {
  if (wish.keeper) stream = mirror(stream, wish);
  for await (const piece of stream) {
    kept.pieces.push(piece);
    for (const notify of kept.news.splice(0)) notify();
  }
  kept.over = true;
  for (const notify of kept.news.splice(0)) notify();
}
const replayed = () => {
  let at = 0;
  return new ReadableStream({
    async pull(controller) {
      while (at === kept.pieces.length && !kept.over) await new Promise((tell) => kept.news.push(tell));
      if (at === kept.pieces.length) return controller.close();
      controller.enqueue(new TextEncoder().encode(kept.pieces[at++]));
    },
  });
};
async function pass(answer, response) {
  response.writeHead(answer.status, Object.fromEntries(answer.headers));
  const turn = sent.push('') - 1;
  try {
    for await (const piece of answer.body) {
      sent[turn] += Buffer.from(piece).toString();
      if (response.destroyed) break; // as a framework does when its client is gone
      response.write(piece);
    }
  } catch {}
  response.end();
}
const server = http.createServer(async (request, response) => {
  const inner = request.url === '/inner'; // an app that only passes on what another one answers watches it there
  const watched = (answer) => (wish.watch && !wish.keeper && !inner ? mirror(answer, wish) : answer);
  if (request.method === 'GET') {
    goOn();
    return pass(watched(new Response(replayed(), { headers: { 'content-type': 'text/event-stream' } })), response);
  }
  let text = '';
  for await (const piece of request) text += piece;
  const body = JSON.parse(text);
  const stop = new AbortController();
  response.on('close', () => response.writableEnded || wish.scenario === 'resume' || stop.abort(new DOMException('client closed', 'AbortError')));
  if (wish.abort === 'server') toldToStop.then(() => stop.abort(new DOMException('operator pressed stop', 'AbortError')));
  if (wish.watch && !inner) mirrorRequest(body, wish);
  if (wish.relay && !inner) {
    const url = `http://127.0.0.1:${server.address().port}/inner`;
    return pass(watched(await fetch(url, { method: 'POST', body: text, signal: stop.signal })), response);
  }
  const done = ai.streamText({
    model, tools, ...approval, ...(wish.telemetry ? { telemetry: { integrations: [telemetry(wish)] } } : {}), stopWhen: (ai.isStepCount ?? ai.stepCountIs)(6), abortSignal: stop.signal,
    messages: await ai.convertToModelMessages(body.messages), onError: () => {},
  });
  const more = wish.scenario === 'resume' ? { consumeSseStream: ({ stream }) => void keep(stream) } : {};
  await pass(watched(done.toUIMessageStreamResponse({ originalMessages: body.messages, generateMessageId: () => 'msg_1', ...more })), response);
});
await new Promise((ready) => server.listen(0, '127.0.0.1', ready));

// ---------------------------------------------------------------- the chat
class State {
  status = 'ready'; error; messages = [];
  pushMessage = (message) => { this.messages = [...this.messages, message]; };
  popMessage = () => { this.messages = this.messages.slice(0, -1); };
  replaceMessage = (at, message) => { this.messages = this.messages.map((old, n) => (n === at ? message : old)); };
  snapshot = (value) => structuredClone(value);
}
class Chat extends ai.AbstractChat {
  constructor({ messages = [], ...options }) { super({ ...options, state: Object.assign(new State(), { messages }) }); }
}
const errors = [];
const open = (messages) => new Chat({
  id: wish.run, messages,
  transport: new ai.DefaultChatTransport({ api: `http://127.0.0.1:${server.address().port}/chat` }),
  sendAutomaticallyWhen: (o) => ai.lastAssistantMessageIsCompleteWithApprovalResponses(o) || ai.lastAssistantMessageIsCompleteWithToolCalls(o),
  onError: (error) => errors.push(error.message),
});
let chat = open();
if (wish.abort === 'client') toldToStop.then(() => chat.stop());
const asked = chat.sendMessage({ text: 'go' });
if (wish.scenario === 'resume') { // the page is closed while a tool runs and opened again, or opened a second time
  const stands = (id) => chat.messages.flatMap((message) => message.parts).find((part) => part.toolCallId === id)?.state;
  while (stands('call_r2') !== 'input-available') await sleep(5);
  if (!wish.second) await chat.stop();
  if (!wish.second) await asked;
  chat = open(chat.messages.slice(0, 1));
  await chat.resumeStream();
  await asked; // of two open pages the first one ends too
} else await asked;
const parts = () => chat.messages.flatMap((message) => message.parts).filter(ai.isToolUIPart);
const waiting = parts().filter((part) => part.state === 'approval-requested');
for (const [n, part] of waiting.entries()) await chat.addToolApprovalResponse({ id: part.approval.id, ...wish.answers[n] });
if (wish.scenario === 'client') await chat.addToolOutput({ tool: 'ask_user', toolCallId: 'call_cl', output: { answer: 'yes' } });
for (let n = 0; n < 6000 && !['ready', 'error'].includes(chat.status); n++) await sleep(10);
const told = troubles.length; // by the time that the chat was over
goOnClock();
await sleep(wish.abort ? 300 : 50);
console.log(JSON.stringify({ ran, saw, errors, prompts, told, sent, states: Object.fromEntries(parts().map((part) => [part.toolCallId, part.state])) }));
server.close();
server.closeAllConnections();
