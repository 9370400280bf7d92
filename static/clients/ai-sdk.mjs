/**
 * Toolcards for the Vercel AI SDK 6 and 7 (read from `ai` 7.0.173 and 6.0.326): watch a chat's tool calls, and gate them.
 *
 * For servers (Node 22+, Bun, Deno, edge): copy it into your project with the modules that it imports, and what they
 * import; it has no other dependencies. It holds an agent key, so it must never reach a browser, and Toolcards answers no
 * cross-origin request.
 *
 *     import { mirror, mirrorRequest, toolApproval } from './ai-sdk.mjs';
 *     const toolcards = { run: chatId };     // address and key: TOOLCARDS_URL and TOOLCARDS_AGENT_KEY, or url and key here
 *     mirrorRequest(body, toolcards);                                                   // answers given in the chat
 *     const result = streamText({ …, toolApproval: toolApproval(toolcards) });          // AI SDK 7: ask the gate
 *     return mirror(result.toUIMessageStreamResponse(), toolcards);                     // watch
 *
 * Watching fails open and silent: without Toolcards the stream is unchanged, to the byte.
 * Gating fails closed: without an answer the tool does not run, and the model reads why.
 *
 * @typedef {object} Options
 * @property {string} [url]       the address of Toolcards, such as http://127.0.0.1:8000 (default: TOOLCARDS_URL)
 * @property {string} [key]       an agent key, scopes `ingest` to watch, `decide` and `result` to gate (TOOLCARDS_AGENT_KEY)
 * @property {string} run         your id of this chat: 1 to 200 printable characters, the same for all its requests
 * @property {string} [agent]     the agent's name on the cards
 * @property {string} [protocol]  the protocol of the mirrored stream: `ai-sdk` (default), `tanstack` or `ag-ui`
 * @property {any} [request]      mirror: the body of the request that is being answered, see `mirrorRequest`
 * @property {number} [limit]     mirror: bytes that may wait for a slow Toolcards; beyond them the copy is given up (1 MiB)
 * @property {number} [seconds]   gate: how long a person may take (default: the policy's own time, else 900)
 * @property {AbortSignal} [signal]  gate: withdraws the approval request when the chat is stopped
 * @property {string} [kind]      gate: the kind of the tools, as Toolcards names it (`read`, `execute`, …)
 * @property {(error: unknown) => void} [onError]  called with each error of watching (default: none)
 * @property {(work: Promise<unknown>) => void} [waitUntil]  for platforms that freeze a function after its response
 * @property {typeof fetch} [fetch]
 *
 * @import { ApprovalEvent, ApprovalStatus } from './app-approvals.mjs'
 * @import { Call, Decision } from './gate-client.mjs'
 */

import { evaluateNeedsApproval, isApprovedInChat, resolveAppApproval } from './app-approvals.mjs';
import { findMismatch } from './json-schema.mjs';
import { Denied, ask as askGate, result, runs as runGated } from './gate-client.mjs';
import { StreamCopy, waitForCall } from './stream-copy.mjs';

const UNFIT_EDIT = 'A reviewer changed the arguments, but the tool does not accept them, so the call did not run.';

export { Denied, result } from './gate-client.mjs';
export { mirror, mirrorRequest } from './stream-mirror.mjs';

/**
 * AI SDK 7, where there is no UI message stream (`generateText`, agents): `telemetry: { integrations: [telemetry(options)] }`.
 * Shows the calls that are executed; it does not see calls that are refused earlier (unknown tool, invalid input).
 * Create a new one for each call of the SDK.
 *
 * @param {Options} options
 */
export function telemetry(options) {
  const copy = new StreamCopy({ ...options, protocol: 'native' });
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
 * AI SDK 7: `streamText({ …, toolApproval: toolApproval(options) })` (also `generateText`). Toolcards' policy decides
 * about every call; if it asks, the stream waits for a person. What the app asks its own user (`needsApproval` of its
 * tools, or its own `toolApproval` as `appApproval`) is asked first, in the app's chat; the gate decides after the user
 * approved. The SDK cannot run arguments that a person edited: the call is denied, and the model reads what the reviewer
 * wants (see `gated`).
 *
 * @param {Options} options
 * @param {any} [appApproval]  the app's own `toolApproval`: a function, or an object of statuses or functions by tool
 * @returns {(event: ApprovalEvent) => Promise<'not-applicable' | ApprovalStatus>}
 */
export function toolApproval(options, appApproval) {
  return async (event) => {
    const { toolCall, messages } = event;
    const status = await resolveAppApproval(event, appApproval);
    if (status.type === 'denied') return status;
    const isUserAsked = status.type === 'user-approval' && !isApprovedInChat(messages, toolCall);
    // The SDK asks here again before it runs an approved call; only not for calls that the provider runs.
    if (isUserAsked && !toolCall.providerExecuted) return status;
    const call = { tool: toolCall.toolName, callId: toolCall.toolCallId, args: toolCall.input };
    const decision = denyEdit(await ask(call, options));
    if (!decision.allowed) return { type: 'denied', reason: decision.reason };
    if (isUserAsked || status.type === 'approved') return status;
    return decision.by === 'human' ? { type: 'approved', reason: decision.reason } : 'not-applicable';
  };
}

/**
 * AI SDK 6: `tool({ …, needsApproval: needsApproval('bash', options) })`. Version 6 knows only "run" and "ask the user":
 * a denial by Toolcards is thrown, so that the chat's own user cannot overrule it. The stream then carries an error and
 * the model does not read the reason; with `gated` it does. If the tool has a `needsApproval` of its own, pass it as
 * `appNeedsApproval`: the user is asked first, then the gate.
 *
 * @param {string} tool  its name
 * @param {Options} options
 * @param {any} [appNeedsApproval]  a boolean or a function
 * @returns {(input: unknown, context: { toolCallId: string, messages?: any[] }) => Promise<boolean>}
 */
export function needsApproval(tool, options, appNeedsApproval) {
  return async (input, context) => {
    const { toolCallId, messages } = context;
    const isUserNeeded = await evaluateNeedsApproval(appNeedsApproval, input, context);
    if (isUserNeeded && !isApprovedInChat(messages, { toolCallId, input })) return true; // called again after the answer
    const decision = denyEdit(await ask({ tool, callId: toolCallId, args: input }, options));
    if (!decision.allowed) throw new Denied(decision.reason);
    return isUserNeeded;
  };
}

/**
 * Any version: `tools: gated(tools, options)`. Each tool with an `execute` asks right before it runs, runs with the
 * arguments as a person edited them, and reports its outcome. A denial is an error whose text the model reads.
 *
 * @template {Record<string, any>} T
 * @param {T} tools
 * @param {Options} options
 * @returns {T}
 */
export function gated(tools, options) {
  const entries = Object.entries(tools).map(([name, tool]) => {
    return [name, typeof tool?.execute === 'function' ? gateTool(name, tool, options) : tool];
  });
  return /** @type {any} */ (Object.fromEntries(entries));
}

/** @param {string} name @param {any} tool @param {Options} options */
function gateTool(name, tool, options) {
  const execute = (/** @type {unknown} */ input, /** @type {any} */ context) => {
    const call = { tool: name, callId: context?.toolCallId ?? `call-${crypto.randomUUID()}`, args: input };
    const callOptions = { ...options, signal: context?.abortSignal ?? options.signal };
    return runs(call, callOptions, async (args, edited) => {
      return tool.execute.call(tool, edited ? await parseEdit(tool, args) : args, context);
    });
  };
  return Object.assign(Object.create(Object.getPrototypeOf(tool)), tool, { execute });
}

/**
 * Return edited arguments as the tool's schema parses them; throws Denied if they do not fit.
 *
 * @param {any} tool
 * @param {unknown} args
 */
export async function parseEdit(tool, args) {
  const declared = tool.inputSchema;
  const schema = typeof declared === 'function' && !declared['~standard'] ? declared() : declared;
  const validate = schema?.['~standard']?.validate ?? schema?.validate;
  if (typeof validate !== 'function') {
    // `jsonSchema(…)` of the AI SDK, tools of MCP servers and TanStack's plain schemas come without a parser
    const mismatch = findMismatch(args, (await schema?.jsonSchema) ?? schema ?? true);
    if (mismatch) throw new Denied(`${UNFIT_EDIT} (${mismatch})`);
    return args;
  }
  const parsed = await validate.call(schema['~standard'] ?? schema, args);
  if (parsed.issues || parsed.success === false) throw new Denied(UNFIT_EDIT);
  return 'value' in parsed ? parsed.value : args;
}

/**
 * Ask the gate, wait for its decision, and claim the permit. Never throws: everything unclear is a denial. A mirrored
 * call is asked about after its stream has shown it.
 *
 * @param {Call} call
 * @param {Options} options
 * @returns {Promise<Decision>}
 */
export async function ask(call, options) {
  await waitForCall(options.run, call.callId);
  return askGate(call, options);
}

/**
 * Ask, run with the allowed arguments, and report the outcome. Throws Denied.
 *
 * @param {Call} call
 * @param {Options} options
 * @param {(args: unknown, edited: boolean) => any} execute
 */
export async function runs(call, options, execute) {
  await waitForCall(options.run, call.callId);
  return runGated(call, options, execute);
}

/**
 * Return the decision, or a denial if a person edited the arguments: the SDK can only run the model's.
 *
 * @param {Decision} decision
 * @returns {Decision}
 */
function denyEdit(decision) {
  if (!decision.allowed || !decision.edited) return decision;
  const args = JSON.stringify(decision.args);
  const reason = `A reviewer changed the arguments. To continue, call the tool again with ${args}`;
  return { ...decision, allowed: false, reason, args: undefined, edited: false, by: '' };
}
