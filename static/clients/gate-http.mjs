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
const SENDABLE = /^[ -~]*$/;
const JSON_TYPE = /^application\/json\s*(;\s*charset\s*=\s*"?utf-8"?\s*)?$/i;

/** An answer that cannot be used; the message says why. */
export class UnusableAnswer extends Error {
  name = 'UnusableAnswer';
}

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
  try {
    const answer = readAnswer((options.fetch ?? fetch)(findBase(options) + path, /** @type {any} */ (init)));
    answer.catch(() => {}); // it may still fail after the timeout
    return await Promise.race([answer, /** @type {Promise<never>} */ (cancelled)]);
  } finally {
    clearTimeout(timer);
    timeout.abort(new Error('done')); // stop reading
  }
}

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
  throw new Error('the agent key contains a line break or a character that no key has; copy the key again');
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

/** Return whether the server refused, so that a retry gets the same answer. @param {any} error */
export function isFinal({ status = 0 }) {
  return status >= 400 && status < 500 && status !== 429;
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
