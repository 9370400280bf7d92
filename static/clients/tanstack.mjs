/**
 * Toolcards for TanStack AI (read from `@tanstack/ai` 0.58.0): watch a chat's tool calls, and gate them.
 *
 * For servers; needs `ai-sdk.mjs` and the modules that it needs in the same folder, and nothing else. The options, and
 * how both sides fail, are described in `ai-sdk.mjs`.
 *
 *     import { gate, mirror, mirrorRequest } from './tanstack.mjs';
 *     mirrorRequest(body, toolcards);                                            // answers given in the chat
 *     const stream = chat({ …, middleware: [gate(toolcards)] });                 // ask before each server tool
 *     return mirror(toServerSentEventsResponse(stream), toolcards);              // watch
 *
 * @import { Options } from './ai-sdk.mjs'
 * @import { Call } from './gate-client.mjs'
 */

import { ask, mirror as mirrorStream, parseEdit, result } from './ai-sdk.mjs';
import { sendFrames } from './stream-copy.mjs';

/**
 * Return the stream, unchanged, while a copy of it goes to Toolcards: a Response (SSE or NDJSON) or `chat()`'s stream.
 *
 * @template T
 * @param {T} source
 * @param {Options} options
 * @returns {T}
 */
export function mirror(source, options) {
  if (options.request) mirrorRequest(options.request, options);
  return mirrorStream(source, { ...options, protocol: 'tanstack', request: undefined });
}

/**
 * Report what people answered in the chat itself, and the results of tools that ran in the client. Streams report
 * neither: without this their cards would wait forever. Works for the body of any AG-UI request.
 *
 * @param {{ resume?: any[], forwardedProps?: any, messages?: any[] }} body
 * @param {Options} options
 */
export function mirrorRequest(body, options) {
  const { resume, forwardedProps } = body ?? {};
  const messages = listNewResults(body?.messages);
  const hasNews = resume?.length || forwardedProps?.command?.resume || messages.length;
  const value = { resume, forwardedProps, messages };
  return sendFrames(hasNews ? [{ type: 'CUSTOM', name: 'toolcards.request', value }] : [], 'tanstack', options);
}

/** Return the tool messages after the agent's last message. @param {any[] | undefined} messages @returns {any[]} */
function listNewResults(messages) {
  if (!Array.isArray(messages)) return [];
  const newMessages = messages.slice(messages.findLastIndex((message) => message?.role === 'assistant') + 1);
  return newMessages.filter((message) => message?.role === 'tool' && message.toolCallId);
}

/**
 * A middleware that asks before each call of a server tool. Put it first: TanStack takes the first middleware's answer
 * about a call, so the gate would not be asked about what an earlier one decides. What was judged runs, or a person's
 * edit. A denial becomes the call's result, `{"error": reason}`, since a middleware can skip a call but not fail it:
 * Toolcards shows it as denied.
 *
 * @param {Options} options
 */
export function gate(options) {
  /** @type {{ id: string, call: Call, request: unknown }[]} */
  const running = []; // several may have one id
  // A tool that still runs may report its result later, which then counts.
  const abort = (/** @type {any} */ context) => {
    for (const { call, request } of running) if (request === context?.requestId) result(call, { outcome: 'aborted' }, options);
  };
  const skip = (/** @type {string} */ error) => ({ type: 'skip', result: { error } });
  return {
    name: 'toolcards',
    async onBeforeToolCall(/** @type {any} */ context, /** @type {any} */ { toolName, toolCallId, args, tool }) {
      const decision = await ask({ tool: toolName, callId: toolCallId, args }, { signal: context?.signal, ...options });
      if (!decision.allowed) return skip(decision.reason);
      try {
        const input = decision.edited ? await parseEdit(tool, decision.args) : decision.args;
        running.push({ id: toolCallId, call: decision.call, request: context?.requestId });
        return { type: 'transformArgs', args: input };
      } catch (error) {
        const message = error instanceof Error ? error.message : String(error);
        result(decision.call, { outcome: 'error', error: { message, code: 'invalid_input' } }, options);
        return skip(message);
      }
    },
    onAbort: abort,
    onError: abort,
    onAfterToolCall(/** @type {any} */ _, /** @type {any} */ { toolName, toolCallId, ok, result: output, error }) {
      const index = running.findIndex(({ id, call }) => id === toolCallId && call.tool === toolName);
      if (index < 0) return;
      const [{ call }] = running.splice(index, 1);
      const message = error instanceof Error ? error.message : String(error ?? '');
      result(call, ok ? { outcome: 'ok', output: output ?? null } : { outcome: 'error', error: { message } }, options);
    },
  };
}
