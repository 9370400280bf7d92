// One chat with the real TanStack AI: its server (chat), its own client (ChatClient), a scripted adapter.
// Reads one JSON line: {scenario, url, key, run, gate, watch, answers, abort}; prints one line: what happened.
import http from 'node:http';
import readline from 'node:readline';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { chat, chatParamsFromRequestBody, maxIterations, toHttpResponse, toolDefinition, toServerSentEventsResponse } from '@tanstack/ai';
import { BaseTextAdapter } from '@tanstack/ai/adapters';
import { ChatClient, fetchServerSentEvents } from '@tanstack/ai-client';
import { z } from 'zod';
import { gate, mirror, mirrorRequest } from './tanstack.mjs';

const lines = readline.createInterface({ input: process.stdin });
const heard = () => new Promise((line) => lines.once('line', line));
const wish = JSON.parse(await heard());
const toldToStop = wish.abort ? heard() : undefined;
const sleep = (ms, signal) => new Promise((done, failed) => {
  const timer = setTimeout(done, ms);
  timer.unref(); // who sleeps does not keep the program alive
  signal?.addEventListener?.('abort', () => (clearTimeout(timer), failed(new Error('aborted'))));
});
const call = (toolCallId, toolCallName, args, index = 0) => {
  const text = typeof args === 'string' ? args : JSON.stringify(args);
  let input; try { input = JSON.parse(text); } catch {}
  return [{ type: 'TOOL_CALL_START', toolCallId, toolCallName, toolName: toolCallName, index },
    ...(text.match(/[\s\S]{1,7}/gu) ?? []).map((delta) => ({ type: 'TOOL_CALL_ARGS', toolCallId, delta })),
    { type: 'TOOL_CALL_END', toolCallId, ...(input === undefined ? {} : { input }) }];
};
const calls = (...made) => ({ parts: made.flat(), finish: 'tool_calls' });
const say = (text) => ({ parts: [{ type: 'TEXT_MESSAGE_START', messageId: 't', role: 'assistant' }, { type: 'TEXT_MESSAGE_CONTENT', messageId: 't', delta: text }, { type: 'TEXT_MESSAGE_END', messageId: 't' }], finish: 'stop' });
const SCENARIOS = {
  success: [calls(call('call_ok', 'weather', { city: 'Paris' })), say('21 C')],
  error: [calls(call('call_err', 'fail', { message: 'disk on fire' })), say('failed')],
  'empty-error': [calls(call('call_empty', 'fail', { message: '' })), say('failed')],
  unknown: [calls(call('call_u', 'no_such_tool', { x: 1 })), say('no such tool')],
  invalid: [calls(call('call_i', 'weather', { city: 42 })), say('bad input')],
  broken: [calls(call('call_b', 'weather', '{"city": "Par')), say('bad input')],
  parallel: [calls(call('call_p1', 'slow', { ms: 80 }, 0), call('call_p2', 'fail', { message: 'boom' }, 1), call('call_p3', 'slow', { ms: 5 }, 2)), say('two of three')],
  deny: [calls(call('call_no', 'shell', { command: 'echo forbidden' })), say('I may not')],
  ask: [calls(call('call_ask', 'shell', { command: 'echo ask' })), say('done')],
  free: [calls(call('call_free', 'shell', { command: 'exit 0' })), say('done')],
  chat: [calls(call('call_c1', 'delete_file', { path: '/a' }, 0), call('call_c2', 'delete_file', { path: '/b' }, 1)), say('mixed')],
  edited: [calls(call('call_e', 'delete_file', { path: '/a' })), say('done')],
  client: [calls(call('call_cl', 'ask_user', { question: 'ok?' })), say('thanks')],
  hang: [calls(call('call_hang', 'slow', { ms: 60000 })), say('never')],
};
const ran = [], saw = {};
let prompts = 0;
const tool = (name, shape, work, more = {}) => toolDefinition({ name, description: name, inputSchema: z.object(shape), ...more }).server(async (input) => (ran.push([name, input]), work(input)));
const tools = [
  tool('weather', { city: z.string() }, async ({ city }) => ({ city, temp: 21 })),
  tool('fail', { message: z.string() }, async ({ message }) => { throw new Error(message); }),
  tool('slow', { ms: z.number() }, async ({ ms }) => (await sleep(ms), { slept: ms })),
  tool('shell', { command: z.string() }, async ({ command }) => ({ ran: command })),
  tool('delete_file', { path: z.string() }, async ({ path }) => ({ deleted: path }), { needsApproval: true }),
];
const question = toolDefinition({ name: 'ask_user', description: 'ask', inputSchema: z.object({ question: z.string() }) });
tools.push(question);
class Scripted extends BaseTextAdapter {
  name = 'scripted';
  constructor() { super({}, 'scripted-1'); }
  async *chatStream(options) {
    prompts += 1;
    for (const message of options.messages) if (message.role === 'tool') saw[message.toolCallId] = message.content;
    const turns = SCENARIOS[wish.scenario];
    const { parts, finish } = turns[Math.min(options.messages.filter((message) => message.role === 'assistant').length, turns.length - 1)];
    const base = { threadId: options.threadId, runId: options.runId, model: 'scripted-1' };
    yield { type: 'RUN_STARTED', timestamp: Date.now(), ...base };
    for (const part of parts) { yield { timestamp: Date.now(), ...part }; await sleep(1); }
    yield { type: 'RUN_FINISHED', timestamp: Date.now(), ...base, finishReason: finish, usage: { promptTokens: 1, completionTokens: 1, totalTokens: 2 } };
  }
  async structuredOutput() { throw new Error('unused'); }
}
// The real adapter for chat completions, if the wish names a model's address: each turn has a run id of its own.
const adapter = wish.model ? (await import('@tanstack/ai-openai')).createOpenaiChatCompletions('gpt-5', 'no-key', { baseURL: wish.model }) : new Scripted();
const server = http.createServer(async (request, response) => {
  let text = '';
  for await (const piece of request) text += piece;
  const body = JSON.parse(text);
  const abortController = new AbortController();
  response.on('close', () => response.writableEnded || abortController.abort());
  if (wish.watch) mirrorRequest(body, wish);
  const p = await chatParamsFromRequestBody(body);
  const stream = chat({
    adapter, tools, messages: p.messages, threadId: p.threadId, runId: p.runId, parentRunId: p.parentRunId, resume: p.resume,
    abortController, agentLoopStrategy: maxIterations(6), ...(wish.gate === 'gate' ? { middleware: [gate(wish)] } : {}),
  });
  let answer = wish.lines ? toHttpResponse(stream, { abortController }) : toServerSentEventsResponse(stream, { abortController });
  if (wish.watch) answer = mirror(answer, wish);
  response.writeHead(answer.status, Object.fromEntries(answer.headers));
  await pipeline(Readable.fromWeb(answer.body), response).catch(() => {}); // cancels the stream when the client is gone
});
await new Promise((ready) => server.listen(0, '127.0.0.1', ready));

const errors = [];
let turns = 0;
const definition = toolDefinition({ name: 'delete_file', description: 'd', inputSchema: z.object({ path: z.string() }), needsApproval: true });
const fetchClient = (url, init) => (turns++, fetch(url, init));
const client = new ChatClient({
  id: 'chat', threadId: wish.run, tools: [definition, question.client(async () => ({ answer: 'yes' }))], onError: (error) => errors.push(error.message),
  connection: fetchServerSentEvents(`http://127.0.0.1:${server.address().port}/chat`, { fetchClient }),
});
if (wish.abort) toldToStop.then(() => client.stop());
const began = performance.now();
await Promise.race([client.sendMessage(wish.prompt ?? 'go'), ...(wish.abort ? [toldToStop.then(() => sleep(3000))] : [])]);
const asked = client.getInterrupts();
if (asked.length > 1) client.resolveInterrupts((one) => { one.resolveInterrupt(wish.answers[one.toolCallId] ?? true); });
else if (asked.length) asked[0].resolveInterrupt(true, wish.editedArgs ? { editedArgs: wish.editedArgs } : undefined);
for (let n = 0; asked.length && n < 6000 && (turns < 2 || client.getIsLoading()); n++) await sleep(10);
const took = performance.now() - began;
await sleep(200);
const states = {};
for (const message of client.getMessages()) for (const part of message.parts) if (part.type === 'tool-call') states[part.id] = part.state;
console.log(JSON.stringify({ ran, saw, errors, prompts, took, states }));
server.close();
server.closeAllConnections(); // the end comes when the copies are out
