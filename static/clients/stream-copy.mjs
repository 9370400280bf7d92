/**
 * The copy of one stream on its way to Toolcards, and frames of a run outside its stream. Nothing here throws or blocks.
 *
 * @import { Options } from './ai-sdk.mjs'
 */

import { closeCalls } from './call-ids.mjs';
import { nameRun } from './gate-client.mjs';
import { buildHeaders, checkKey, findBase, reportError } from './gate-http.mjs';
import { LineCutter, cutFrame } from './payload-limits.mjs';

const MAX_SEND_MS = 5_000; // that the copy of a finished stream may still take
const DEFAULT_LIMIT = 1 << 20;
const MAX_DISPLAY_MS = 250; // that the gate waits until the mirrored stream has shown a call
const MAX_PENDING_MS = 1_000; // that it waits until the answers in a request have arrived
const sleep = (/** @type {number} */ ms) => new Promise((resolve) => setTimeout(resolve, ms));

/** @type {Map<string, Promise<unknown>>} frames of a run that are being sent: the copy of its next stream waits for them */
const pendingFrames = new Map();
/** @type {Map<string, Set<StreamCopy>>} the copies that are being sent, by run */
const copiesByRun = new Map();

/**
 * Send frames of a run outside its stream; never rejects.
 *
 * @param {object[]} frames
 * @param {string} protocol
 * @param {Options} options
 */
export function sendFrames(frames, protocol, options) {
  if (!frames.length) return Promise.resolve();
  const init = {
    method: 'POST',
    keepalive: false,
    headers: buildHeaders(options, 'application/x-ndjson'),
    body: frames.map((frame) => `${JSON.stringify(cutFrame(frame))}\n`).join(''),
    signal: AbortSignal.timeout(MAX_SEND_MS),
  };
  const previous = pendingFrames.get(options.run) ?? Promise.resolve();
  const work = previous
    .then(() => post({ ...options, protocol }, init))
    .catch((error) => reportError(options, error))
    .finally(() => pendingFrames.get(options.run) === work && pendingFrames.delete(options.run));
  pendingFrames.set(options.run, work);
  options.waitUntil?.(work);
  return work;
}

// The message, or the run, that the rest of a stream belongs to.
const STREAM_ID = /"type":"(?:start|RUN_STARTED)"[^\n]*?"(?:messageId|runId)":"([^"\\]+)"/;

// The frames that end a stream which has no end of its own.
const END_FRAMES = {
  'ai-sdk': {
    abort: () => ({ type: 'abort', reason: 'The reader of the stream disconnected.' }),
    error: (/** @type {string} */ text) => ({ type: 'error', errorText: text }),
  },
  'ag-ui': {
    abort: () => ({ type: 'RUN_CANCELLED' }),
    error: (/** @type {string} */ text) => ({ type: 'RUN_ERROR', message: text }),
  },
};

/** The copy of one stream on its way to Toolcards. Nothing here throws or blocks. */
export class StreamCopy {
  /** @param {Options} options @param {string} [type] of bytes; chunks are always sent as lines */
  constructor(options, type = 'text/event-stream') {
    this.options = options;
    this.type = type;
    this.hasEnded = false;
    this.isLost = false; // given up, although the stream may go on
    this.tail = ''; // the latest text, to find calls in
    /** @type {Map<string, () => void>} callbacks by call id, as JSON */
    this.watchers = new Map();
    this.decoder = new TextDecoder();
    this.cutter = new LineCutter();
    if (!copiesByRun.has(options.run)) copiesByRun.set(options.run, new Set());
    /** @type {Set<StreamCopy>} */ (copiesByRun.get(options.run)).add(this);
  }

  /** @param {any} chunk */
  add(chunk) {
    if (this.hasEnded || this.isLost) return;
    try {
      const isRaw = chunk instanceof Uint8Array || typeof chunk === 'string';
      const content = isRaw ? chunk : `${JSON.stringify(chunk)}\n`;
      const text = typeof content === 'string' ? content : this.decoder.decode(content, { stream: true });
      if (!this.body) this.start(isRaw ? this.type : 'application/x-ndjson', text);
      this.scan(text);
      this.enqueue(this.cutter.add(text));
    } catch (error) {
      this.giveUp(error);
    }
  }

  /** @param {string} [ending]  `abort` or `error` if the stream has no end of its own @param {unknown} [reason] */
  end(ending = '', reason = undefined) {
    if (this.hasEnded) return;
    this.hasEnded = true;
    copiesByRun.get(this.options.run)?.delete(this);
    if (!copiesByRun.get(this.options.run)?.size) {
      copiesByRun.delete(this.options.run);
      closeCalls(nameRun(this.options));
    }
    for (const notify of this.watchers.values()) notify();
    if (!this.body || this.isLost) return;
    try {
      this.enqueue(this.cutter.end() + (ending ? this.buildEnd(ending, reason) : ''));
      this.queue?.close();
    } catch (error) {
      this.giveUp(error);
    }
    const timer = setTimeout(() => this.abort.abort(), MAX_SEND_MS);
    /** @type {any} */ (timer).unref?.();
    this.delivery?.finally(() => clearTimeout(timer));
  }

  /** @param {string} ending @param {unknown} reason */
  buildEnd(ending, reason) {
    const { protocol = 'ai-sdk' } = this.options;
    const frames = END_FRAMES[protocol === 'ai-sdk' ? 'ai-sdk' : 'ag-ui'];
    const message = reason instanceof Error ? reason.message : String(reason);
    const frame = JSON.stringify(ending === 'abort' ? frames.abort() : frames.error(message));
    return this.contentType === 'text/event-stream' ? `\n\ndata: ${frame}\n\n` : `\n${frame}\n`;
  }

  /**
   * Open the request. A second reader of the same message (a resumed stream) is sent after the first: as a replay.
   *
   * @param {string} contentType
   * @param {string} firstText
   */
  start(contentType, firstText) {
    const { options } = this;
    this.contentType = contentType;
    this.streamId = STREAM_ID.exec(firstText)?.[1];
    const otherCopies = [...(copiesByRun.get(options.run) ?? [])].filter((copy) => copy.delivery);
    const original = this.streamId && otherCopies.filter((copy) => copy.streamId === this.streamId).at(-1);
    this.abort = new AbortController();
    const strategy = new ByteLengthQueuingStrategy({ highWaterMark: options.limit ?? DEFAULT_LIMIT });
    this.body = new ReadableStream({ start: (queue) => void (this.queue = queue) }, strategy);
    const headers = buildHeaders(options, contentType);
    const init = { method: 'POST', keepalive: false, headers, body: this.body, duplex: 'half', signal: this.abort.signal };
    this.delivery = Promise.all([pendingFrames.get(options.run), original ? original.delivery : undefined])
      .then(() => post(options, init))
      .catch((error) => this.giveUp(error));
    options.waitUntil?.(this.delivery);
  }

  /** @param {string} text */
  enqueue(text) {
    if (!this.queue || !text) return;
    const bytes = new TextEncoder().encode(text);
    if ((this.queue.desiredSize ?? 0) < bytes.byteLength) throw new Error('Toolcards is too slow; the copy was given up');
    this.queue.enqueue(bytes);
  }

  /** @param {unknown} error */
  giveUp(error) {
    if (this.isLost) return;
    this.isLost = true; // the calls of the stream go on
    for (const notify of this.watchers.values()) notify();
    this.queue = undefined;
    this.abort?.abort();
    reportError(this.options, error);
  }

  /** Notify those who wait for a call in this text. @param {string} text */
  scan(text) {
    this.tail = (this.tail + text).slice(-4096 - text.length);
    for (const [id, notify] of this.watchers) if (this.tail.includes(id)) notify();
  }

  /** Wait a short time until the stream has shown the call. @param {string} callId */
  async waitForCall(callId) {
    const id = JSON.stringify(callId);
    if (this.hasEnded || this.isLost || this.tail.includes(id)) return;
    await Promise.race([new Promise((/** @type {(value?: any) => void} */ notify) => this.watchers.set(id, notify)), sleep(MAX_DISPLAY_MS)]);
    this.watchers.delete(id);
  }
}

/**
 * Wait a short time until answers in the chat's request have arrived, and the mirrored streams have shown the call.
 *
 * @param {string} run
 * @param {string} callId
 */
export async function waitForCall(run, callId) {
  if (pendingFrames.has(run)) await Promise.race([pendingFrames.get(run), sleep(MAX_PENDING_MS)]);
  await Promise.all([...(copiesByRun.get(run) ?? [])].map((copy) => copy.waitForCall(callId)));
}

/** @param {Options} options @param {object} init */
async function post(options, init) {
  checkKey(options);
  const { run, agent, protocol } = options;
  const query = new URLSearchParams({ protocol: protocol ?? 'ai-sdk', ...(run ? { run } : {}), ...(agent ? { agent } : {}) });
  const url = `${findBase(options)}/api/v1/ingest?${query}`;
  const response = await (options.fetch ?? fetch)(url, /** @type {any} */ (init));
  if (!response.ok) throw new Error(`Toolcards answered ${response.status}`);
  return response.arrayBuffer();
}
