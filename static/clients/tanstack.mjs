/**
 * Toolcards for TanStack AI (read from `@tanstack/ai` 0.58.0): watch a chat's tool calls, and gate them.
 *
 * For servers; needs `ai-sdk.mjs` beside it and nothing else. The options, and how both sides fail, are written there.
 *
 *     import { gate, mirror, mirrorRequest } from './tanstack.mjs';
 *     mirrorRequest(body, toolcards);                                            // answers given in the chat
 *     const stream = chat({ …, middleware: [gate(toolcards)] });                 // ask before each server tool
 *     return mirror(toServerSentEventsResponse(stream), toolcards);              // watch
 *
 * @import { Options } from './ai-sdk.mjs'
 */

import { ask, mirror as mirrorAny, result, tell } from './ai-sdk.mjs';

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
  return mirrorAny(source, { ...options, protocol: 'tanstack', request: undefined });
}

/** Tell Toolcards what people answered in the chat itself. A denial is never told on TanStack's stream, so without
 * this its card would wait for ever. Works for the body of any AG-UI request.
 *
 * @param {{ resume?: any[], forwardedProps?: any }} body
 * @param {Options} options
 */
export function mirrorRequest(body, options) {
  const { resume, forwardedProps } = body ?? {};
  const answers = resume?.length || forwardedProps?.command?.resume;
  return tell(answers ? [{ type: 'CUSTOM', name: 'toolcards.request', value: { resume, forwardedProps } }] : [], 'tanstack', options);
}

/**
 * A middleware that asks before each call of a server tool. A person's edit is what runs; a no becomes the call's
 * result, `{"error": reason}`, since a middleware can skip a call but not fail it: Toolcards shows it as denied.
 *
 * @param {Options} options
 */
export function gate(options) {
  /** @type {Set<string>} */
  const allowed = new Set();
  return {
    name: 'toolcards',
    async onBeforeToolCall(/** @type {any} */ context, /** @type {any} */ { toolName, toolCallId, args }) {
      const said = await ask({ tool: toolName, callId: toolCallId, args }, { signal: context?.signal, ...options });
      if (!said.allowed) return { type: 'skip', result: { error: said.reason } };
      allowed.add(toolCallId);
      return said.edited ? { type: 'transformArgs', args: said.args } : undefined;
    },
    onAfterToolCall(/** @type {any} */ _, /** @type {any} */ { toolName, toolCallId, ok, result: output, error }) {
      if (!allowed.delete(toolCallId)) return;
      const message = error instanceof Error ? error.message : String(error ?? '');
      result({ tool: toolName, callId: toolCallId, args: null }, ok ? { outcome: 'ok', output: output ?? null } : { outcome: 'error', error: { message } }, options);
    },
  };
}
