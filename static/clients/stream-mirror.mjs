/**
 * Mirror a chat's stream and the answers in its requests, for `ai-sdk.mjs` and `tanstack.mjs`. Fails open and silent:
 * without Toolcards the stream is unchanged, to the byte. `ai-sdk.mjs` lists the options.
 *
 * @import { Options } from './ai-sdk.mjs'
 */

import { reportError } from './gate-http.mjs';
import { StreamCopy, sendFrames } from './stream-copy.mjs';

/**
 * Return the stream, unchanged, while a copy of it goes to Toolcards.
 * Takes a Response, a ReadableStream of bytes, texts or chunks, or any async iterable of chunks; returns the same type.
 *
 * @template T
 * @param {T} source
 * @param {Options} options
 * @returns {T}
 */
export function mirror(source, options) {
  try {
    if (options.request) mirrorRequest(options.request, options);
    if (source instanceof Response) return /** @type {any} */ (mirrorResponse(source, options));
    if (source instanceof ReadableStream) return /** @type {any} */ (mirrorReadable(source, new StreamCopy(options)));
    return /** @type {any} */ (mirrorIterable(/** @type {any} */ (source), new StreamCopy(options)));
  } catch (error) {
    reportError(options, error);
    return source;
  }
}

/**
 * Report what people answered in the chat itself: the approvals and client tools' outputs in a request's messages.
 * Call it with the request's body before you answer it; it never throws and need not be awaited.
 *
 * @param {{ messages?: any[] }} body  what `useChat` posts
 * @param {Options} options
 * @returns {Promise<unknown>}
 */
export function mirrorRequest(body, options) {
  return sendFrames(listAnswers(body), 'ai-sdk', options);
}

/**
 * Return the answers in a posted chat as frames: those after the last step of the message that continues.
 *
 * @param {{ messages?: any[] }} body
 * @returns {object[]}
 */
export function listAnswers(body) {
  const message = body?.messages?.at?.(-1);
  const parts = message?.role === 'assistant' && Array.isArray(message.parts) ? message.parts : [];
  const step = parts.slice(parts.findLastIndex((/** @type {any} */ part) => part?.type === 'step-start') + 1);
  return step.flatMap((/** @type {any} */ part) => {
    const { id, approved, reason, isAutomatic } = part?.approval ?? {};
    if (part?.state === 'approval-responded' && id && typeof approved === 'boolean' && !isAutomatic) {
      return [{ type: 'tool-approval-response', approvalId: id, approved, ...(reason ? { reason } : {}) }];
    }
    const isClientTool = part?.toolCallId && !part.providerExecuted;
    if (isClientTool && part.state === 'output-available') {
      return [{ type: 'tool-output-available', toolCallId: part.toolCallId, output: part.output ?? null }];
    }
    return isClientTool && part.state === 'output-error' && typeof part.errorText === 'string'
      ? [{ type: 'tool-output-error', toolCallId: part.toolCallId, errorText: part.errorText }]
      : [];
  });
}

/** @param {Response} response @param {Options} options */
function mirrorResponse(response, options) {
  if (!response.body || !response.ok || response.bodyUsed) return response;
  const contentType = response.headers.get('content-type') ?? '';
  const copy = new StreamCopy(options, contentType.includes('ndjson') ? 'application/x-ndjson' : 'text/event-stream');
  const { status, statusText } = response;
  return new Response(mirrorReadable(response.body, copy), { status, statusText, headers: response.headers });
}

/**
 * Read only when the app reads, so that its own pace and cancellation stay the same.
 *
 * @param {ReadableStream} source
 * @param {StreamCopy} copy
 */
function mirrorReadable(source, copy) {
  const reader = source.getReader();
  return new ReadableStream(
    {
      async pull(controller) {
        try {
          const { done, value } = await reader.read();
          if (done) {
            copy.end();
            return controller.close();
          }
          copy.add(value);
          controller.enqueue(value);
        } catch (error) {
          copy.end(classifyEnd(error), error);
          controller.error(error);
        }
      },
      cancel(reason) {
        copy.end('abort', reason);
        return reader.cancel(reason);
      },
    },
    { highWaterMark: 0 },
  );
}

/** @param {AsyncIterable<any>} source @param {StreamCopy} copy */
async function* mirrorIterable(source, copy) {
  let ending = 'abort'; // a reader that stops reading stops the run
  try {
    for await (const chunk of source) {
      copy.add(chunk);
      yield chunk;
    }
    ending = '';
  } catch (error) {
    ending = classifyEnd(error);
    copy.end(ending, error);
    throw error;
  } finally {
    copy.end(ending);
  }
}

/** Return `abort` for a source that was cut by its own signal: it was stopped, it did not fail. @param {any} error */
const classifyEnd = (error) => (error?.name === 'AbortError' ? 'abort' : 'error');
