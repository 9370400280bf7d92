/**
 * Watching for `ai-sdk.mjs` and `tanstack.mjs`: copies of streams on their way to Toolcards. Fails open and silent:
 * without Toolcards the stream is the same, to the byte. The options are written in `ai-sdk.mjs`.
 *
 * @import { Options } from './ai-sdk.mjs'
 */

import { base, ended, headers, heard } from './asking.mjs';

const AFTER = 5_000; // ms that the copy of a finished stream may still take
const LIMIT = 1 << 20;
const pause = (/** @type {number} */ ms) => new Promise((done) => setTimeout(done, ms));

/** @type {Map<string, Promise<unknown>>} what is still being told of a run: the next stream's copy comes after it */
const telling = new Map();
/** @type {Map<string, Set<Copy>>} the copies that are being sent now, by run */
const copies = new Map();

/**
 * Return the stream, unchanged, while a copy of it goes to Toolcards.
 * Takes a Response, a ReadableStream of bytes, texts or chunks, or any async iterable of chunks; returns its like.
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
    if (source instanceof ReadableStream) return /** @type {any} */ (copied(source, new Copy(options)));
    return /** @type {any} */ (iterated(/** @type {any} */ (source), new Copy(options)));
  } catch (error) {
    heard(options, error);
    return source;
  }
}

/** Tell Toolcards what people answered in the chat itself: the approvals (and client tools' outputs) in the messages
 * of a request. Call it with the request's body before you answer it; it never throws and need not be awaited.
 *
 * @param {{ messages?: any[] }} body  what `useChat` posts
 * @param {Options} options
 * @returns {Promise<unknown>}
 */
export function mirrorRequest(body, options) {
  return tell(answersIn(body), 'ai-sdk', options);
}

/** Send frames of a run outside its stream; never rejects. @param {object[]} frames @param {string} protocol @param {Options} options */
export function tell(frames, protocol, options) {
  if (!frames.length) return Promise.resolve();
  const body = frames.map((frame) => JSON.stringify(frame)).join('\n') + '\n';
  const init = { method: 'POST', keepalive: false, headers: headers(options, 'application/x-ndjson'), body, signal: AbortSignal.timeout(AFTER) };
  const before = telling.get(options.run) ?? Promise.resolve();
  const work = before
    .then(() => (options.fetch ?? fetch)(ingest({ ...options, protocol }), /** @type {any} */ (init)))
    .then((answer) => (answer.ok ? answer.arrayBuffer() : Promise.reject(new Error(`Toolcards answered ${answer.status}`))))
    .catch((error) => heard(options, error))
    .finally(() => telling.get(options.run) === work && telling.delete(options.run));
  telling.set(options.run, work);
  options.waitUntil?.(work);
  return work;
}

/** The answers that a posted chat carries, as frames: those after the last step of the message that goes on.
 * @param {{ messages?: any[] }} body @returns {object[]} */
export function answersIn(body) {
  const last = body?.messages?.at?.(-1);
  const parts = last?.role === 'assistant' && Array.isArray(last.parts) ? last.parts : [];
  const step = parts.slice(parts.findLastIndex((/** @type {any} */ part) => part?.type === 'step-start') + 1);
  return step.flatMap((/** @type {any} */ part) => {
    const { id, approved, reason, isAutomatic } = part?.approval ?? {};
    if (part?.state === 'approval-responded' && id && typeof approved === 'boolean' && !isAutomatic) {
      return [{ type: 'tool-approval-response', approvalId: id, approved, ...(reason ? { reason } : {}) }];
    }
    const owed = part?.toolCallId && !part.providerExecuted;
    if (owed && part.state === 'output-available') {
      return [{ type: 'tool-output-available', toolCallId: part.toolCallId, output: part.output ?? null }];
    }
    return owed && part.state === 'output-error' && typeof part.errorText === 'string'
      ? [{ type: 'tool-output-error', toolCallId: part.toolCallId, errorText: part.errorText }]
      : [];
  });
}

/** @param {Response} response @param {Options} options */
function mirrorResponse(response, options) {
  if (!response.body || !response.ok || response.bodyUsed) return response;
  const kind = response.headers.get('content-type') ?? '';
  const copy = new Copy(options, kind.includes('ndjson') ? 'application/x-ndjson' : 'text/event-stream');
  const { status, statusText } = response;
  return new Response(copied(response.body, copy), { status, statusText, headers: response.headers });
}

/** Read only when the app reads, so that its own pace and its cancelling stay as they are.
 * @param {ReadableStream} source @param {Copy} copy */
function copied(source, copy) {
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
          copy.end(broken(error), error);
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

/** @param {AsyncIterable<any>} source @param {Copy} copy */
async function* iterated(source, copy) {
  let how = 'abort'; // who stops asking, stops the run
  try {
    for await (const chunk of source) {
      copy.add(chunk);
      yield chunk;
    }
    how = '';
  } catch (error) {
    how = broken(error);
    copy.end(how, error);
    throw error;
  } finally {
    copy.end(how);
  }
}

/** A source that was cut by its own signal was stopped; it did not fail. @param {any} error */
const broken = (error) => (error?.name === 'AbortError' ? 'abort' : 'error');

// What a stream tells at its beginning: the message, or the run, that its rest belongs to.
const BEGUN = /"type":"(?:start|RUN_STARTED)"[^\n]*?"(?:messageId|runId)":"([^"\\]+)"/;

// What we add where a stream ends without saying so itself.
const ENDS = {
  'ai-sdk': {
    abort: () => ({ type: 'abort', reason: 'The reader of the stream went away.' }),
    error: (/** @type {string} */ text) => ({ type: 'error', errorText: text }),
  },
  'ag-ui': {
    abort: () => ({ type: 'RUN_CANCELLED' }),
    error: (/** @type {string} */ text) => ({ type: 'RUN_ERROR', message: text }),
  },
};

/** The copy of one stream on its way to Toolcards. Nothing here throws, and nothing waits. */
export class Copy {
  /** @param {Options} options @param {string} [type] of bytes; chunks are always sent as lines */
  constructor(options, type = 'text/event-stream') {
    this.options = options;
    this.type = type;
    this.over = false;
    this.tail = ''; // the end of what was seen while somebody waits for a call to appear
    /** @type {Map<string, () => void>} */
    this.awaited = new Map();
    /** @type {Set<string>} */
    this.seen = new Set();
    this.text = new TextDecoder();
    if (!copies.has(options.run)) copies.set(options.run, new Set());
    /** @type {Set<Copy>} */ (copies.get(options.run)).add(this);
  }

  /** @param {any} chunk */
  add(chunk) {
    if (this.over) return;
    try {
      const raw = chunk instanceof Uint8Array || typeof chunk === 'string';
      const text = raw ? chunk : `${JSON.stringify(chunk)}\n`;
      const words = raw && typeof chunk !== 'string' ? this.text.decode(chunk, { stream: true }) : text;
      if (!this.body) this.send(raw ? this.type : 'application/x-ndjson', words);
      this.look(words);
      this.put(typeof text === 'string' ? new TextEncoder().encode(text) : text);
    } catch (error) {
      this.drop(error);
    }
  }

  /** @param {string} [how] @param {unknown} [why] */
  end(how = '', why = undefined) {
    if (this.over) return;
    this.over = true;
    copies.get(this.options.run)?.delete(this);
    if (!copies.get(this.options.run)?.size) {
      copies.delete(this.options.run);
      ended(this.options);
    }
    for (const seen of this.awaited.values()) seen();
    if (!this.body) return;
    try {
      if (how) this.put(new TextEncoder().encode(this.ending(how, why)));
      this.queue?.close();
    } catch (error) {
      this.drop(error);
    }
    const timer = setTimeout(() => this.cut.abort(), AFTER);
    /** @type {any} */ (timer).unref?.();
    this.sent?.finally(() => clearTimeout(timer));
  }

  /** @param {string} how @param {unknown} why */
  ending(how, why) {
    const words = ENDS[this.options.protocol === undefined || this.options.protocol === 'ai-sdk' ? 'ai-sdk' : 'ag-ui'];
    const frame = JSON.stringify(how === 'abort' ? words.abort() : words.error(why instanceof Error ? why.message : String(why)));
    return this.sentAs === 'text/event-stream' ? `\n\ndata: ${frame}\n\n` : `\n${frame}\n`;
  }

  /** A second reader of one message (a stream that was resumed) is told of when the first is done: as a replay.
   * @param {string} type @param {string} begins */
  send(type, begins) {
    const { options } = this;
    this.sentAs = type;
    this.told = BEGUN.exec(begins)?.[1];
    const first = this.told && [...(copies.get(options.run) ?? [])].filter((copy) => copy.told === this.told && copy.sent).at(-1);
    this.cut = new AbortController();
    const sizes = new ByteLengthQueuingStrategy({ highWaterMark: options.limit ?? LIMIT });
    this.body = new ReadableStream({ start: (queue) => void (this.queue = queue) }, sizes);
    const init = { method: 'POST', keepalive: false, headers: headers(options, type), body: this.body, duplex: 'half', signal: this.cut.signal };
    const before = Promise.all([telling.get(options.run), first?.sent]);
    this.sent = before
      .then(() => (options.fetch ?? fetch)(ingest(options), /** @type {any} */ (init)))
      .then((answer) => (answer.ok ? answer.arrayBuffer() : Promise.reject(new Error(`Toolcards answered ${answer.status}`))))
      .catch((error) => this.drop(error));
    options.waitUntil?.(this.sent);
  }

  /** @param {Uint8Array} bytes */
  put(bytes) {
    if (!this.queue) return;
    if ((this.queue.desiredSize ?? 0) < bytes.byteLength) throw new Error('Toolcards is too slow; the copy was given up');
    this.queue.enqueue(bytes.slice()); // a buffer may be used again by whoever reads the original
  }

  /** @param {unknown} error */
  drop(error) {
    const told = this.over && !this.queue;
    this.end();
    this.queue = undefined;
    this.cut?.abort();
    if (!told) heard(this.options, error);
  }

  /** Notice the calls that pass by. @param {string} text */
  look(text) {
    this.tail = (this.tail + text).slice(-4096 - text.length);
    for (const [id, seen] of this.awaited) if (this.tail.includes(id)) seen();
  }

  /** Wait until the call has passed by, not long. @param {string} callId */
  async passed(callId) {
    const id = JSON.stringify(callId);
    if (this.over || this.tail.includes(id)) return;
    await Promise.race([new Promise((/** @type {(value?: any) => void} */ seen) => this.awaited.set(id, seen)), pause(250)]);
    this.awaited.delete(id);
  }
}

/** Wait until the streams of the run have shown the call, not long. @param {string} run @param {string} callId */
export async function passed(run, callId) {
  await Promise.all([...(copies.get(run) ?? [])].map((copy) => copy.passed(callId)));
}

/** @param {Options} options */
function ingest({ url, run, agent, protocol }) {
  const query = new URLSearchParams({ protocol: protocol ?? 'ai-sdk', ...(run ? { run } : {}), ...(agent ? { agent } : {}) });
  return `${base({ url })}/api/v1/ingest?${query}`;
}
