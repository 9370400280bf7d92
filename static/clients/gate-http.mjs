/**
 * HTTP requests to Toolcards: one connection each, bounded in time and size, with strictly checked JSON answers.
 *
 * @typedef {object} HttpOptions
 * @property {string} [url]  the address of Toolcards (default: the environment variable TOOLCARDS_URL)
 * @property {string} [key]  an agent key (default: the environment variable TOOLCARDS_AGENT_KEY)
 * @property {AbortSignal} [signal]
 * @property {typeof fetch} [fetch]
 * @property {string} [idempotencyKey]
 */

const MAX_ANSWER_BYTES = 2 << 20;
const MAX_ANSWER_DEPTH = 200;
const GRACE_MS = 10_000; // after this a server without a complete answer counts as unreachable
const MAX_LATE_MS = 120_000; // that a report is sent again
const MAX_LATE_REPORTS = 1_000;
const HOLD_MS = 2_000; // that reports which are sent again keep Node running
const FIRST_PAUSE_MS = 250, LONGEST_PAUSE_MS = 5_000; // between two attempts
const UNKNOWN_ATTEMPTS = 4; // at a call that the server does not know: its question may still be on the way
const UNSENT = new Set(['ECONNREFUSED', 'ENOTFOUND', 'ERR_INVALID_URL']); // codes of errors before a request was sent
const SENDABLE = /^[ -~]*$/;
const JSON_TYPE = /^application\/json\s*(;\s*charset\s*=\s*"?utf-8"?\s*)?$/i;

/** An answer that cannot be used; the message says why. */
export class UnusableAnswer extends Error {
  name = 'UnusableAnswer';
}

/** A key that no request can carry. */
class UnsendableKey extends Error {}

/**
 * Return the JSON object of a 200 answer; throws for everything else.
 * The answer must be complete within `holdSeconds` (the time the server may hold the request) plus 10 seconds.
 *
 * @param {HttpOptions} options
 * @param {string} method
 * @param {string} path
 * @param {object} [body]
 * @param {number} [holdSeconds]
 * @returns {Promise<Record<string, any>>}
 */
export async function request(options, method, path, body, holdSeconds = 0) {
  checkKey(options);
  const timeout = new AbortController();
  const signal = options.signal ? AbortSignal.any([options.signal, timeout.signal]) : timeout.signal;
  const init = {
    method,
    headers: {
      ...buildHeaders(options, 'application/json'),
      ...(options.idempotencyKey && { 'idempotency-key': options.idempotencyKey }),
      accept: 'application/json',
      'accept-encoding': 'identity',
    },
    body: body === undefined ? undefined : JSON.stringify(body),
    redirect: 'manual',
    keepalive: false,
    signal,
  };
  const timer = setTimeout(() => timeout.abort(new Error('timeout: no complete answer')), holdSeconds * 1000 + GRACE_MS);
  const cancelled = new Promise((_, reject) => {
    const fail = () => reject(signal.reason instanceof Error ? signal.reason : new Error('stopped'));
    signal.aborted ? fail() : signal.addEventListener('abort', fail, { once: true });
  });
  cancelled.catch(() => {}); // no one waits for it if `fetch` throws
  try {
    const answer = readAnswer((options.fetch ?? fetch)(findBase(options) + path, /** @type {any} */ (init)));
    answer.catch(() => {}); // it may still fail after the timeout
    return await Promise.race([answer, /** @type {Promise<never>} */ (cancelled)]);
  } finally {
    clearTimeout(timer);
    timeout.abort(new Error('done')); // stop reading
  }
}

let lateReports = 0;

/**
 * POST a report, again in the background until the server has it, for up to two minutes; neither promise rejects.
 * Only for reports that change nothing when they are repeated. Node does not keep running for it for long, see HOLD_MS.
 *
 * @param {HttpOptions & { onError?: (error: unknown) => void }} options
 * @param {string} path
 * @param {object} body
 * @returns {{ first: Promise<void>, whole: Promise<void> }}  the end of the first attempt, and of all of them
 */
export function deliver(options, path, body) {
  const lasting = { ...options, signal: undefined }; // the end of a chat is reported, too
  const first = request(lasting, 'POST', path, body).then(
    () => undefined,
    (error) => {
      reportError(options, error);
      return error;
    },
  );
  const whole = first.then((error) => (error && canHelp(error, 1) ? deliverLate(lasting, path, body) : undefined));
  return { first: first.then(() => {}), whole };
}

/** @param {HttpOptions} options @param {string} path @param {object} body */
async function deliverLate(options, path, body) {
  if (lateReports >= MAX_LATE_REPORTS) return;
  lateReports += 1;
  const startedAt = performance.now();
  let pause = FIRST_PAUSE_MS;
  for (let attempts = 2; performance.now() - startedAt < MAX_LATE_MS; attempts++) {
    const isHolding = performance.now() - startedAt + pause <= HOLD_MS;
    await new Promise((resolve) => {
      const timer = setTimeout(resolve, pause);
      if (!isHolding) /** @type {any} */ (timer).unref?.();
    });
    pause = Math.min(2 * pause, LONGEST_PAUSE_MS);
    const error = await request(options, 'POST', path, body).then(() => undefined, (failure) => failure);
    if (!error || !canHelp(error, attempts)) break;
  }
  lateReports -= 1;
}

/** Return whether a report can be sent again after this error. @param {any} error @param {number} attempts */
const canHelp = (error, attempts) => !isFinal(error) || (error.status === 404 && attempts < UNKNOWN_ATTEMPTS);

/** Return the address of Toolcards without a slash at its end. @param {HttpOptions} options */
export function findBase(options) {
  return (options.url ?? readEnvironment('TOOLCARDS_URL') ?? 'http://127.0.0.1:8000').replace(/\/+$/, '');
}

/**
 * Return the headers of every request. Each connection carries one request, so that no idle one is reused.
 *
 * @param {HttpOptions} options
 * @param {string} contentType
 */
export function buildHeaders(options, contentType) {
  return { authorization: `Bearer ${findKey(options)}`, 'content-type': contentType, connection: 'close' };
}

/** Throw if the key cannot be sent; the error of `fetch` would contain it. @param {HttpOptions} options */
export function checkKey(options) {
  if (SENDABLE.test(findKey(options))) return;
  throw new UnsendableKey('the agent key contains a line break or a character that no key has; copy the key again');
}

/** @param {HttpOptions} options */
function findKey(options) {
  return (options.key ?? readEnvironment('TOOLCARDS_AGENT_KEY') ?? '').trim();
}

/** @param {string} name @returns {string | undefined} */
function readEnvironment(name) {
  return /** @type {any} */ (globalThis).process?.env?.[name];
}

/** Pass an error to `onError`. @param {{ onError?: (error: unknown) => void }} options @param {unknown} error */
export function reportError(options, error) {
  try {
    options.onError?.(error);
  } catch {} // a failing callback changes nothing
}

/** Return whether a retry gets the same answer: the server refused, or the request cannot be sent. @param {any} error */
export function isFinal(error) {
  const status = error?.status ?? 0;
  return error instanceof UnsendableKey || (status >= 400 && status < 500 && status !== 429);
}

/** Return whether the server may have got the request that failed, and may act on it. @param {any} error */
export function mayHaveArrived(error) {
  return !isFinal(error) && !UNSENT.has(error?.cause?.code ?? error?.code);
}

// ---------------------------------------------------------------- one complete answer

/** Return the JSON object of a 200; other statuses throw an Error with `status`. @param {Promise<Response>} pending */
async function readAnswer(pending) {
  const response = await pending;
  if (response.status !== 200 || response.redirected) {
    const payload = await readObject(response).catch(() => ({}));
    const { message } = payload.error ?? {};
    const text = typeof message === 'string' ? message.slice(0, 2000) : `it answered ${response.status}`;
    throw Object.assign(new Error(text), { status: response.status });
  }
  return readObject(response);
}

/**
 * Return the JSON object of a response; throws UnusableAnswer if it is incomplete, too long, compressed or not JSON.
 *
 * @param {Response} response
 */
async function readObject(response) {
  if (!JSON_TYPE.test(response.headers.get('content-type') ?? '')) throw new UnusableAnswer('it is not JSON');
  if ((response.headers.get('content-encoding') ?? 'identity').toLowerCase() !== 'identity') {
    throw new UnusableAnswer('it is compressed, although that was not requested');
  }
  const length = response.headers.get('content-length');
  if (length !== null && !(/^\d{1,9}$/.test(length) && Number(length) <= MAX_ANSWER_BYTES)) {
    throw new UnusableAnswer('it is too long');
  }
  const bytes = await readBytes(response);
  if (length !== null && bytes.length !== Number(length)) throw new UnusableAnswer('it was cut off');
  return parseStrictObject(bytes);
}

/** @param {Response} response */
async function readBytes(response) {
  /** @type {Uint8Array[]} */
  const pieces = [];
  let size = 0;
  const reader = response.body?.getReader();
  for (let piece = await reader?.read(); piece && !piece.done; piece = await reader?.read()) {
    size += piece.value.length;
    if (size > MAX_ANSWER_BYTES) throw new UnusableAnswer('it is too long');
    pieces.push(piece.value);
  }
  const bytes = new Uint8Array(size);
  let offset = 0;
  for (const piece of pieces) {
    bytes.set(piece, offset);
    offset += piece.length;
  }
  return bytes;
}

/**
 * Return the JSON object in these bytes; throws UnusableAnswer for everything that two parsers may read differently.
 *
 * @param {Uint8Array} bytes
 * @returns {Record<string, any>}
 */
export function parseStrictObject(bytes) {
  let text, value;
  try {
    text = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
    value = JSON.parse(text);
  } catch {
    throw new UnusableAnswer('it is not JSON');
  }
  if (!isPlainObject(value)) throw new UnusableAnswer('it is not a JSON object');
  if (countValueKeys(value) !== countTextKeys(text)) throw new UnusableAnswer('it has a duplicate key');
  return value;
}

/** Count the keys of all objects in a value; throws UnusableAnswer for ambiguous values. @param {any} root */
function countValueKeys(root) {
  let keys = 0;
  for (let level = [root], depth = 0; level.length; depth++) {
    if (depth > MAX_ANSWER_DEPTH) throw new UnusableAnswer('it is nested too deeply');
    /** @type {any[]} */
    const nextLevel = [];
    for (const value of level) {
      if (typeof value === 'number' && !Number.isFinite(value)) throw new UnusableAnswer('a number is out of range');
      if (typeof value === 'string' && hasLoneSurrogate(value)) throw new UnusableAnswer('it has a lone surrogate');
      if (Array.isArray(value)) for (const item of value) nextLevel.push(item);
      else if (isPlainObject(value)) {
        for (const [key, item] of Object.entries(value)) {
          if (hasLoneSurrogate(key)) throw new UnusableAnswer('it has a lone surrogate');
          nextLevel.push(item);
          keys += 1;
        }
      }
    }
    level = nextLevel;
  }
  return keys;
}

/** Count the keys in a valid JSON text. @param {string} text */
function countTextKeys(text) {
  let keys = 0;
  for (const match of text.matchAll(/"[^"\\]*(?:\\.[^"\\]*)*"(\s*:)?/g)) if (match[1]) keys += 1;
  return keys;
}

/** @param {unknown} value @returns {value is Record<string, any>} */
export const isPlainObject = (value) => typeof value === 'object' && value !== null && !Array.isArray(value);

/** @param {string} text */
export const hasLoneSurrogate = (text) => /\p{Surrogate}/u.test(text);
