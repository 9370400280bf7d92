/**
 * Toolcards for TanStack AI (read from `@tanstack/ai` 0.58.0): watch a chat's tool calls, and gate them.
 *
 * For servers; needs `ai-sdk.mjs`, `mirroring.mjs`, `asking.mjs` and `answers.mjs` beside it and nothing else. The
 * options, and how both sides fail, are written in `ai-sdk.mjs`.
 *
 *     import { gate, mirror, mirrorRequest } from './tanstack.mjs';
 *     mirrorRequest(body, toolcards);                                            // answers given in the chat
 *     const stream = chat({ …, middleware: [gate(toolcards)] });                 // ask before each server tool
 *     return mirror(toServerSentEventsResponse(stream), toolcards);              // watch
 *
 * @import { Options } from './ai-sdk.mjs'
 * @import { Call } from './asking.mjs'
 */

import { ask, fits, mirror as mirrorAny, result, tell } from './ai-sdk.mjs';

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
 * A middleware that asks before each call of a server tool. Put it first: TanStack takes the first middleware's word on
 * a call, so what another one said before would not be asked about. What runs is what was judged, or a person's edit; a
 * no becomes the call's result, `{"error": reason}`, since a middleware can skip a call but not fail it: Toolcards shows
 * it as denied.
 *
 * @param {Options} options
 */
export function gate(options) {
  /** @type {{ id: string, call: Call }[]} */
  const running = []; // several may have one id
  const skip = (/** @type {string} */ error) => ({ type: 'skip', result: { error } });
  return {
    name: 'toolcards',
    async onBeforeToolCall(/** @type {any} */ context, /** @type {any} */ { toolName, toolCallId, args, tool }) {
      const said = await ask({ tool: toolName, callId: toolCallId, args }, { signal: context?.signal, ...options });
      if (!said.allowed) return skip(said.reason);
      try {
        const runs = said.edited ? await fits(tool, said.args) : said.args;
        running.push({ id: toolCallId, call: said.call });
        return { type: 'transformArgs', args: runs };
      } catch (error) {
        const message = error instanceof Error ? error.message : String(error);
        result(said.call, { outcome: 'error', error: { message, code: 'invalid_input' } }, options);
        return skip(message);
      }
    },
    onAfterToolCall(/** @type {any} */ _, /** @type {any} */ { toolName, toolCallId, ok, result: output, error }) {
      const at = running.findIndex(({ id, call }) => id === toolCallId && call.tool === toolName);
      if (at < 0) return;
      const [{ call }] = running.splice(at, 1);
      const message = error instanceof Error ? error.message : String(error ?? '');
      result(call, ok ? { outcome: 'ok', output: output ?? null } : { outcome: 'error', error: { message } }, options);
    },
  };
}
