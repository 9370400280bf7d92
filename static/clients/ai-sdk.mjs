/**
 * Toolcards for the Vercel AI SDK 6 and 7 (read from `ai` 7.0.173 and 6.0.326): watch a chat's tool calls, and gate them.
 *
 * For servers (Node 22+, Bun, Deno, edge): copy it into your project with `mirroring.mjs`, `asking.mjs` and
 * `answers.mjs`; nothing else is needed. It holds an agent key, so it must never reach a browser, and Toolcards answers
 * no cross-origin request.
 *
 *     import { mirror, mirrorRequest, toolApproval } from './ai-sdk.mjs';
 *     const toolcards = { run: chatId };     // address and key: TOOLCARDS_URL and TOOLCARDS_AGENT_KEY, or url and key here
 *     mirrorRequest(body, toolcards);                                                   // answers given in the chat
 *     const result = streamText({ …, toolApproval: toolApproval(toolcards) });          // AI SDK 7: ask the gate
 *     return mirror(result.toUIMessageStreamResponse(), toolcards);                     // watch
 *
 * Watching fails open and silent: without Toolcards the stream is the same, to the byte.
 * Gating fails closed: without an answer the tool does not run, and the model is told why.
 *
 * @typedef {object} Options
 * @property {string} [url]       where Toolcards is, such as http://127.0.0.1:8000 (the environment's TOOLCARDS_URL)
 * @property {string} [key]       an agent key, scopes `ingest` to watch, `decide` and `result` to gate (TOOLCARDS_AGENT_KEY)
 * @property {string} run         your id of this chat: 1 to 200 printable characters, the same for all its requests
 * @property {string} [agent]     the agent's name on the cards
 * @property {string} [protocol]  what the mirrored stream speaks: `ai-sdk` (default), `tanstack` or `ag-ui`
 * @property {object} [request]   mirror: the body of the request that is being answered, see `mirrorRequest`
 * @property {number} [limit]     mirror: bytes that may wait for a slow Toolcards; beyond them the copy is given up (1 MiB)
 * @property {number} [seconds]   gate: how long a person may take (the policy's own time, else 900)
 * @property {AbortSignal} [signal]  gate: takes the question back when the chat is stopped
 * @property {string} [kind]      gate: what the tools do, in Toolcards' words (`read`, `execute`, …)
 * @property {(error: unknown) => void} [onError]  hears what went wrong while watching; by default nobody does
 * @property {(work: Promise<unknown>) => void} [waitUntil]  for platforms that freeze a function after its response
 * @property {typeof fetch} [fetch]
 *
 * @import { Call, Verdict } from './asking.mjs'
 */

import { Denied, ask as asked, result, runs as ran } from './asking.mjs';
import { Copy, passed } from './mirroring.mjs';

const UNFIT = 'A reviewer changed the arguments, and the tool does not take them: nothing ran.';

export { Denied, result } from './asking.mjs';
export { answersIn, mirror, mirrorRequest, tell } from './mirroring.mjs';

/**
 * AI SDK 7, where there is no UI message stream (`generateText`, agents): `telemetry: { integrations: [telemetry(options)] }`.
 * Shows the calls that are executed; calls that are refused before (unknown tool, invalid input) it does not see.
 * Make a new one for each call of the SDK.
 *
 * @param {Options} options
 */
export function telemetry(options) {
  const copy = new Copy({ ...options, protocol: 'native' });
  const end = (/** @type {string} */ outcome) => {
    copy.add({ type: 'run.finished', outcome });
    copy.end();
  };
  return {
    onToolExecutionStart(/** @type {any} */ { toolCall: { toolCallId, toolName, input } }) {
      copy.add({ type: 'tool.input.available', call_id: toolCallId, tool: toolName, input: input ?? {} });
    },
    onToolExecutionEnd(/** @type {any} */ { toolCall: { toolCallId }, toolOutput }) {
      const { error, output } = toolOutput ?? {};
      const message = error instanceof Error ? error.message : String(error ?? '');
      copy.add(
        toolOutput?.type === 'tool-error'
          ? { type: 'tool.output.error', call_id: toolCallId, error: { message } }
          : { type: 'tool.output.available', call_id: toolCallId, output: output ?? null },
      );
    },
    onEnd: () => end('success'),
    onAbort: () => end('aborted'),
    onError: () => end('error'),
  };
}

// ---------------------------------------------------------------- gating

/**
 * AI SDK 7: `streamText({ …, toolApproval: toolApproval(options) })` (also `generateText`). Every call is judged by
 * Toolcards' policy; where it asks, the stream waits until a person has answered. A person's edit of the arguments
 * cannot be handed to the SDK here: the call is refused, and the model told what the reviewer wants (see `gated`).
 *
 * @param {Options} options
 * @returns {(asked: { toolCall: { toolName: string, toolCallId: string, input: unknown } }) =>
 *   Promise<'not-applicable' | { type: 'approved' | 'denied', reason?: string }>}
 */
export function toolApproval(options) {
  return async ({ toolCall }) => {
    const call = { tool: toolCall.toolName, callId: toolCall.toolCallId, args: toolCall.input };
    const said = unedited(await ask(call, options));
    if (!said.allowed) return { type: 'denied', reason: said.reason };
    return said.by === 'human' ? { type: 'approved', reason: said.reason } : 'not-applicable';
  };
}

/**
 * AI SDK 6: `tool({ …, needsApproval: needsApproval('bash', options) })`. Version 6 knows only yes and "ask the user":
 * a no from Toolcards is thrown, so that the chat's own user cannot overrule it. The stream then carries an error and
 * the model does not read the reason; `gated` tells it.
 *
 * @param {string} tool  its name
 * @param {Options} options
 * @returns {(input: unknown, about: { toolCallId: string }) => Promise<false>}
 */
export function needsApproval(tool, options) {
  return async (args, { toolCallId }) => {
    const said = unedited(await ask({ tool, callId: toolCallId, args }, options));
    if (!said.allowed) throw new Denied(said.reason);
    return false;
  };
}

/**
 * Any version: `tools: gated(tools, options)`. Each tool with an `execute` asks right before it runs, runs with the
 * arguments as a person edited them, and tells what came of it. A no is an error whose text the model reads.
 *
 * @template {Record<string, any>} T
 * @param {T} tools
 * @param {Options} options
 * @returns {T}
 */
export function gated(tools, options) {
  const wrapped = Object.entries(tools).map(([name, tool]) => [
    name,
    typeof tool?.execute !== 'function' ? tool : Object.assign(Object.create(Object.getPrototypeOf(tool)), tool, {
      execute: (/** @type {unknown} */ args, /** @type {any} */ about) => {
        const call = { tool: name, callId: about?.toolCallId ?? `call-${crypto.randomUUID()}`, args };
        const heeded = { ...options, signal: about?.abortSignal ?? options.signal };
        return runs(call, heeded, async (allowed, edited) => tool.execute.call(tool, edited ? await fits(tool, allowed) : allowed, about));
      },
    }),
  ]);
  return /** @type {any} */ (Object.fromEntries(wrapped));
}

/** Return edited arguments as the tool takes them; throws Denied where it does not. @param {any} tool @param {unknown} args */
export async function fits(tool, args) {
  const given = tool.inputSchema;
  const schema = typeof given === 'function' && !given['~standard'] ? given() : given;
  const validate = schema?.['~standard']?.validate ?? schema?.validate;
  const found = typeof validate === 'function' ? await validate.call(schema['~standard'] ?? schema, args) : { value: args };
  if (found.issues || found.success === false) throw new Denied(UNFIT);
  return 'value' in found ? found.value : args;
}

/**
 * Ask the gate and wait for its answer; use up the permit. Never throws: whatever is unclear is a no. A call that is
 * mirrored is asked about once its stream has shown it.
 *
 * @param {Call} call
 * @param {Options} options
 * @returns {Promise<Verdict>}
 */
export async function ask(call, options) {
  await passed(options.run, call.callId);
  return asked(call, options);
}

/** Ask, run with the arguments that were allowed, tell the outcome. Throws Denied.
 * @param {Call} call @param {Options} options @param {(args: unknown, edited: boolean) => any} execute */
export async function runs(call, options, execute) {
  await passed(options.run, call.callId);
  return ran(call, options, execute);
}

/** The SDK cannot run other arguments than the model's: then it must not run at all. @param {Verdict} said @returns {Verdict} */
function unedited(said) {
  if (!said.allowed || !said.edited) return said;
  return denied(`A reviewer changed the arguments. If that serves you, call the tool again with ${JSON.stringify(said.args)}`);
}

/** @param {string} reason @returns {Verdict} */
function denied(reason) {
  return { allowed: false, reason, args: undefined, edited: false, by: '', call: { tool: '', callId: '', args: undefined } };
}
