/**
 * Answers of Toolcards' gate, checked against the question: whatever is not plainly an allow for it is a deny.
 *
 * Pure functions; `asking.mjs` sends and receives. The digests are SHA-256 over the RFC 8785 form (JCS), the same as the
 * server's and the Python client's: tests/client/common/test_digest_agreement.py holds all three to one table.
 *
 * @typedef {{ name: string, source: string, schema_sha256: string }} Tool
 * @typedef {object} Question
 * @property {string} run
 * @property {string} callId
 * @property {number} attempt
 * @property {Tool} tool
 * @property {unknown} args  the JSON value exactly as it is sent
 * @property {string} argsSha256
 */

export const LONGEST = 2 << 20; // bytes of one answer
const DEEPEST = 32; // levels of arguments, as the server counts
const MOST = 10_000; // values in arguments
const DEEPEST_ANSWER = 200;
const EFFECTS = ['allow', 'deny', 'ask'];

/** An answer that cannot be used; the message says why. */
export class NotBound extends Error {
  name = 'NotBound';
}

// ---------------------------------------------------------------- one whole answer

const JSON_TYPE = /^application\/json\s*(;\s*charset\s*=\s*"?utf-8"?\s*)?$/i;

/** Return the JSON object of a 200; throws an Error with `status` for another one, and NotBound. @param {Promise<Response>} sent */
export async function answered(sent) {
  const answer = await sent;
  if (answer.status !== 200 || answer.redirected) {
    const said = await objectOf(answer).catch(() => ({}));
    const told = typeof said.error?.message === 'string' ? said.error.message.slice(0, 2000) : `it answered ${answer.status}`;
    throw Object.assign(new Error(told), { status: answer.status });
  }
  return objectOf(answer);
}

/** Return whether the server refused, so that asking again gets no other answer. @param {any} error */
export function isFinal({ status = 0 }) {
  return status >= 400 && status < 500 && status !== 429;
}

/** Return the JSON object of an HTTP answer; throws NotBound where it is not whole, too long, compressed or no JSON.
 * @param {Response} answer */
export async function objectOf(answer) {
  if (!JSON_TYPE.test(answer.headers.get('content-type') ?? '')) throw new NotBound('it is not JSON');
  if ((answer.headers.get('content-encoding') ?? 'identity').toLowerCase() !== 'identity') {
    throw new NotBound('it is compressed, though nobody asked for that');
  }
  const length = answer.headers.get('content-length');
  if (length !== null && !(/^\d{1,9}$/.test(length) && Number(length) <= LONGEST)) throw new NotBound('it is too long');
  const bytes = await bytesOf(answer);
  if (length !== null && bytes.length !== Number(length)) throw new NotBound('it was cut off');
  return strictObject(bytes);
}

/** @param {Response} answer */
async function bytesOf(answer) {
  /** @type {Uint8Array[]} */
  const parts = [];
  let size = 0;
  const reader = answer.body?.getReader();
  for (let part = await reader?.read(); part && !part.done; part = await reader?.read()) {
    size += part.value.length;
    if (size > LONGEST) throw new NotBound('it is too long');
    parts.push(part.value);
  }
  const whole = new Uint8Array(size);
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}

// ---------------------------------------------------------------- JSON in one reading

/** Return the JSON object that these bytes are; throws NotBound for everything that two readers may read differently.
 * @param {Uint8Array} bytes @returns {Record<string, any>} */
export function strictObject(bytes) {
  let text, value;
  try {
    text = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
    value = JSON.parse(text);
  } catch {
    throw new NotBound('it is not JSON');
  }
  if (!plainObject(value)) throw new NotBound('it is not a JSON object');
  if (keysIn(value) !== keysOf(text)) throw new NotBound('a key comes twice in one object');
  return value;
}

/** Count the keys of all objects in the value; throws NotBound for what JSON cannot say in one way. @param {any} whole */
function keysIn(whole) {
  let keys = 0;
  for (let level = [whole], depth = 0; level.length; depth++) {
    if (depth > DEEPEST_ANSWER) throw new NotBound('it is nested too deep');
    /** @type {any[]} */
    const next = [];
    for (const value of level) {
      if (typeof value === 'number' && !Number.isFinite(value)) throw new NotBound('a number is out of range');
      if (typeof value === 'string' && broken(value)) throw new NotBound('it holds half a surrogate pair');
      if (Array.isArray(value)) for (const item of value) next.push(item);
      else if (plainObject(value)) {
        for (const [key, item] of Object.entries(value)) {
          if (broken(key)) throw new NotBound('it holds half a surrogate pair');
          next.push(item);
          keys += 1;
        }
      }
    }
    level = next;
  }
  return keys;
}

/** Count the keys that are written in a text that is valid JSON. @param {string} text */
function keysOf(text) {
  let keys = 0;
  for (const found of text.matchAll(/"[^"\\]*(?:\\.[^"\\]*)*"(\s*:)?/g)) if (found[1]) keys += 1;
  return keys;
}

/** @param {unknown} value @returns {value is Record<string, any>} */
const plainObject = (value) => typeof value === 'object' && value !== null && !Array.isArray(value);

/** @param {string} text */
const broken = (text) => /\p{Surrogate}/u.test(text);

// ---------------------------------------------------------------- digests

/** Return the value as RFC 8785 text; throws NotBound for what has no single spelling: numbers that are not finite or
 * not exact, lone surrogates, U+0000, more than 32 levels or 10,000 values, and what is no JSON.
 * @param {unknown} value @returns {string} */
export function canonical(value) {
  let values = 0;
  /** @param {any} item @param {number} depth @returns {string} */
  const spell = (item, depth) => {
    if (++values > MOST) throw new NotBound(`the arguments have more than ${MOST} values`);
    if (item === null || typeof item === 'boolean') return String(item);
    if (typeof item === 'number') return number(item);
    if (typeof item === 'string') return quoted(item);
    if (depth > DEEPEST) throw new NotBound(`the arguments are more than ${DEEPEST} levels deep`);
    if (Array.isArray(item)) return `[${item.map((part) => spell(part, depth + 1)).join(',')}]`;
    if (!plainObject(item)) throw new NotBound(`${typeof item} is not a JSON type`);
    const parts = Object.keys(item).sort().map((key) => `${quoted(key)}:${spell(item[key], depth + 1)}`); // by UTF-16
    return `{${parts.join(',')}}`;
  };
  return spell(value, 1);
}

/** @param {number} value */
function number(value) {
  if (!Number.isFinite(value)) throw new NotBound('NaN and infinities are not JSON');
  if (Number.isInteger(value) && !Number.isSafeInteger(value) && Math.abs(value) < 1e21) {
    throw new NotBound('integers beyond 2^53-1 lose digits; send them as strings');
  }
  return String(value === 0 ? 0 : value); // -0 is 0
}

/** @param {string} text */
function quoted(text) {
  if (text.includes('\0')) throw new NotBound('U+0000 is not allowed in text');
  if (broken(text)) throw new NotBound('half a surrogate pair is not text');
  return JSON.stringify(text);
}

/** Return the lower-case hex SHA-256 of the text. @param {string} text @returns {Promise<string>} */
async function sha256(text) {
  const bytes = new Uint8Array(await crypto.subtle.digest('SHA-256', new TextEncoder().encode(text)));
  return [...bytes].map((byte) => byte.toString(16).padStart(2, '0')).join('');
}

/** Return `args_sha256`. @param {unknown} args */
export const digest = async (args) => sha256(canonical(args));

/** Return `call_sha256`: the digest of arguments, tool, server and schema together. @param {unknown} args @param {Tool} tool */
export async function callDigest(args, { name, source, schema_sha256 }) {
  const parts = [args, schema_sha256, { name, source }].map(canonical);
  return sha256(`{"args":${parts[0]},"schema_sha256":${parts[1]},"tool":${parts[2]}}`);
}

/** Return the question about a call; throws NotBound, or what JSON.stringify throws, where it cannot be asked.
 * @param {{ run: string, callId: string, attempt: number, tool: string | Partial<Tool>, args: unknown }} call
 * @returns {Promise<Question>} */
export async function questionOf({ run, callId, attempt, tool, args }) {
  const sent = asSent(args);
  const named = typeof tool === 'string' ? { name: tool } : tool;
  const { name = '', source = '', schema_sha256 = '' } = named;
  return { run, callId, attempt, tool: { name, source, schema_sha256 }, args: sent, argsSha256: await digest(sent) };
}

/** Return the arguments as JSON says them; throws for values that JSON would leave out or turn into something else.
 * @param {unknown} args */
export function asSent(args) {
  const text = JSON.stringify(args ?? {}, (key, value) => {
    if (typeof value === 'number' && !Number.isFinite(value)) throw new NotBound(`${key}: NaN and infinities are not JSON`);
    if (value instanceof Map || value instanceof Set || value instanceof RegExp) throw new NotBound(`${key} has no form in JSON`);
    return value;
  });
  return JSON.parse(text);
}

// ---------------------------------------------------------------- decisions and claims

/** Return a decision object that is plainly about this question; throws NotBound.
 * @param {Record<string, any>} answer @param {Question} question @param {'decision' | 'poll'} kind */
export async function decisionFor(answer, question, kind) {
  if (!EFFECTS.includes(answer.decision)) throw new NotBound('it is no decision');
  same(answer, 'run', question.run);
  same(answer, 'call_id', question.callId);
  if (answer.decision === 'deny') return answer; // obeyed whatever else it says
  same(answer, 'attempt', question.attempt);
  if (answer.decision === 'ask') {
    if (!text(answer.approval?.id)) throw new NotBound('it asks a person, but does not say where to wait');
    // An edit that may still be undone shows in polls, and a repair in all answers, before there is an allow for it.
    if (kind !== 'poll' && !('repair' in answer)) same(answer, 'args_sha256', question.argsSha256);
    return answer;
  }
  const tool = toolOf(answer, question);
  const args = 'args' in answer ? answer.args : question.args;
  same(answer, 'args_sha256', await digest(args));
  agrees(answer, 'call_sha256', await callDigest(args, tool));
  return answer;
}

/** Check the answer to a claim: the same permit, call, digest, arguments and tool; throws NotBound.
 * @param {Record<string, any>} answer @param {Record<string, any>} decision @param {Question} question */
export async function checkClaim(answer, decision, question) {
  if (answer.state !== 'claimed') throw new NotBound('it does not say that the permit was claimed');
  same(answer, 'permit', decision.permit.id);
  same(answer, 'call_id', question.callId);
  agrees(answer, 'run', question.run);
  agrees(answer, 'attempt', question.attempt);
  same(answer, 'args_sha256', decision.args_sha256);
  if (!('args' in answer) || (await digest(answer.args)) !== decision.args_sha256) {
    throw new NotBound('its arguments are not those of its digest');
  }
  const tool = toolOf(decision, question);
  if ('tool' in answer && toolOf(answer, question).source !== tool.source) throw new NotBound('it is for another tool');
  agrees(answer, 'call_sha256', await callDigest(answer.args, tool));
}

/** Return the reason for the model. @param {any} said @returns {string} */
export function words(said) {
  const parts = [said.reason?.text, said.reason?.suggest].filter((part) => typeof part === 'string' && part);
  return parts.join(' ').slice(0, 8000) || 'The gate did not allow this call.';
}

/** The tool that the answer speaks of, which must be the one asked about. @param {Record<string, any>} answer
 * @param {Question} question @returns {Tool} */
export function toolOf(answer, { tool }) {
  if (!('tool' in answer)) return tool; // a server may leave it out
  const { name, source } = plainObject(answer.tool) ? answer.tool : {};
  if (typeof name !== 'string' || typeof source !== 'string') throw new NotBound('it names no tool');
  if (name !== tool.name || (tool.source && source !== tool.source)) throw new NotBound('it is for another tool');
  return { ...tool, source };
}

/** @param {Record<string, any>} answer @param {string} name @param {unknown} wanted */
function same(answer, name, wanted) {
  if (!Object.hasOwn(answer, name) || answer[name] !== wanted) throw new NotBound(`its ${name} is not that of this call`);
}

/** As `same`, where the field is there. @param {Record<string, any>} answer @param {string} name @param {unknown} wanted */
function agrees(answer, name, wanted) {
  if (name in answer) same(answer, name, wanted);
}

/** @param {unknown} value */
const text = (value) => (typeof value === 'string' ? value : '');
