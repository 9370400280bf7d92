/**
 * Checks of the gate's answers against the request: everything that is not clearly an allow for it is a denial.
 *
 * Pure functions; `gate-client.mjs` sends and receives. Digests are SHA-256 over the RFC 8785 form (JCS), equal to those
 * of the server and the Python client: tests/client/common/test_digest_agreement.py checks all three with one table.
 *
 * @typedef {{ name: string, source: string, schema_sha256: string }} Tool
 * @typedef {object} GateRequest
 * @property {string} run
 * @property {string} callId
 * @property {number} attempt
 * @property {Tool} tool
 * @property {unknown} args  the JSON value exactly as it is sent
 * @property {string} argsSha256
 */

import { UnusableAnswer, hasLoneSurrogate, isPlainObject } from './gate-http.mjs';

const MAX_ARGS_DEPTH = 32; // as the server counts
const MAX_ARGS_VALUES = 10_000;
const EFFECTS = ['allow', 'deny', 'ask'];

// ---------------------------------------------------------------- digests

/**
 * Return the value as RFC 8785 text.
 * Throws UnusableAnswer for values without a unique form: numbers that are not finite or not exact, lone surrogates,
 * U+0000, more than 32 levels or 10,000 values, and what is not JSON.
 *
 * @param {unknown} value
 * @returns {string}
 */
export function canonical(value) {
  let count = 0;
  /** @param {any} item @param {number} depth @returns {string} */
  const write = (item, depth) => {
    if (++count > MAX_ARGS_VALUES) throw new UnusableAnswer(`the arguments have more than ${MAX_ARGS_VALUES} values`);
    if (item === null || typeof item === 'boolean') return String(item);
    if (typeof item === 'number') return writeNumber(item);
    if (typeof item === 'string') return writeText(item);
    if (depth > MAX_ARGS_DEPTH) throw new UnusableAnswer(`the arguments are more than ${MAX_ARGS_DEPTH} levels deep`);
    if (Array.isArray(item)) return `[${item.map((element) => write(element, depth + 1)).join(',')}]`;
    if (!isPlainObject(item)) throw new UnusableAnswer(`${typeof item} is not a JSON type`);
    const keys = Object.keys(item).sort(); // by UTF-16 code units
    return `{${keys.map((key) => `${writeText(key)}:${write(item[key], depth + 1)}`).join(',')}}`;
  };
  return write(value, 1);
}

/** @param {number} value */
function writeNumber(value) {
  if (!Number.isFinite(value)) throw new UnusableAnswer('NaN and infinities are not JSON');
  if (Number.isInteger(value) && !Number.isSafeInteger(value) && Math.abs(value) < 1e21) {
    throw new UnusableAnswer('integers beyond 2^53-1 lose digits; send them as strings');
  }
  return String(value === 0 ? 0 : value); // -0 is 0
}

/** @param {string} text */
function writeText(text) {
  if (text.includes('\0')) throw new UnusableAnswer('U+0000 is not allowed in text');
  if (hasLoneSurrogate(text)) throw new UnusableAnswer('text must not contain lone surrogates');
  return JSON.stringify(text);
}

/** Return the lower-case hex SHA-256 of a text. @param {string} text @returns {Promise<string>} */
async function sha256(text) {
  const bytes = new Uint8Array(await crypto.subtle.digest('SHA-256', new TextEncoder().encode(text)));
  return [...bytes].map((byte) => byte.toString(16).padStart(2, '0')).join('');
}

/** Return `args_sha256`. @param {unknown} args */
export const digest = async (args) => sha256(canonical(args));

/**
 * Return `call_sha256`, the digest of arguments, tool, server and schema together.
 *
 * @param {unknown} args
 * @param {Tool} tool
 */
export async function digestCall(args, { name, source, schema_sha256 }) {
  const parts = [args, schema_sha256, { name, source }].map(canonical);
  return sha256(`{"args":${parts[0]},"schema_sha256":${parts[1]},"tool":${parts[2]}}`);
}

/**
 * Return the gate request for a call; throws UnusableAnswer, or what JSON.stringify throws, if it has no JSON form.
 *
 * @param {{ run: string, callId: string, attempt: number, tool: string | Partial<Tool>, args: unknown }} call
 * @returns {Promise<GateRequest>}
 */
export async function buildGateRequest({ run, callId, attempt, tool, args }) {
  const wireArgs = toWire(args);
  const { name = '', source = '', schema_sha256 = '' } = typeof tool === 'string' ? { name: tool } : tool;
  const argsSha256 = await digest(wireArgs);
  return { run, callId, attempt, tool: { name, source, schema_sha256 }, args: wireArgs, argsSha256 };
}

/**
 * Return the arguments as JSON sends them; throws for values that JSON would omit or change.
 *
 * @param {unknown} args
 */
export function toWire(args) {
  const text = JSON.stringify(args ?? {}, (key, value) => {
    if (typeof value === 'number' && !Number.isFinite(value)) {
      throw new UnusableAnswer(`${key}: NaN and infinities are not JSON`);
    }
    if (value instanceof Map || value instanceof Set || value instanceof RegExp) {
      throw new UnusableAnswer(`${key} has no JSON form`);
    }
    return value;
  });
  return JSON.parse(text);
}

// ---------------------------------------------------------------- decisions and claims

/**
 * Return the decision if it clearly answers this request; throws UnusableAnswer.
 *
 * @param {Record<string, any>} answer
 * @param {GateRequest} gateRequest
 * @param {'decision' | 'poll'} kind
 */
export async function checkDecision(answer, gateRequest, kind) {
  if (!EFFECTS.includes(answer.decision)) throw new UnusableAnswer('it is not a decision');
  requireEqual(answer, 'run', gateRequest.run);
  requireEqual(answer, 'call_id', gateRequest.callId);
  if (answer.decision === 'deny') return answer; // obeyed regardless of its other fields
  requireEqual(answer, 'attempt', gateRequest.attempt);
  if (answer.decision === 'ask') {
    if (!toText(answer.approval?.id)) throw new UnusableAnswer('it requires approval, but names no approval');
    // Polls show an edit that can still be undone, and all answers show a repair, before there is an allow for it.
    if (kind !== 'poll' && !('repair' in answer)) requireEqual(answer, 'args_sha256', gateRequest.argsSha256);
    return answer;
  }
  const tool = findTool(answer, gateRequest);
  const args = 'args' in answer ? answer.args : gateRequest.args;
  requireEqual(answer, 'args_sha256', await digest(args));
  requireEqualIfPresent(answer, 'call_sha256', await digestCall(args, tool));
  return answer;
}

/**
 * Check the answer to a claim: the same permit, call, digest, arguments and tool; throws UnusableAnswer.
 *
 * @param {Record<string, any>} answer
 * @param {Record<string, any>} decision
 * @param {GateRequest} gateRequest
 */
export async function checkClaim(answer, decision, gateRequest) {
  if (answer.state !== 'claimed') throw new UnusableAnswer('it does not confirm the claim');
  requireEqual(answer, 'permit', decision.permit.id);
  requireEqual(answer, 'call_id', gateRequest.callId);
  requireEqualIfPresent(answer, 'run', gateRequest.run);
  requireEqualIfPresent(answer, 'attempt', gateRequest.attempt);
  requireEqual(answer, 'args_sha256', decision.args_sha256);
  if (!('args' in answer) || (await digest(answer.args)) !== decision.args_sha256) {
    throw new UnusableAnswer('its arguments do not match its digest');
  }
  const tool = findTool(decision, gateRequest);
  if ('tool' in answer && findTool(answer, gateRequest).source !== tool.source) {
    throw new UnusableAnswer('it is for a different tool');
  }
  requireEqualIfPresent(answer, 'call_sha256', await digestCall(answer.args, tool));
}

/** Return the reason of a decision for the model. @param {any} decision @returns {string} */
export function formatReason(decision) {
  const texts = [decision.reason?.text, decision.reason?.suggest].filter((part) => typeof part === 'string' && part);
  return texts.join(' ').slice(0, 8000) || 'The gate did not allow this call.';
}

/**
 * Return the tool that the answer names, which must be the requested one.
 *
 * @param {Record<string, any>} answer
 * @param {GateRequest} gateRequest
 * @returns {Tool}
 */
export function findTool(answer, { tool }) {
  if (!('tool' in answer)) return tool; // optional
  const { name, source } = isPlainObject(answer.tool) ? answer.tool : {};
  if (typeof name !== 'string' || typeof source !== 'string') throw new UnusableAnswer('it names no tool');
  if (name !== tool.name || (tool.source && source !== tool.source)) throw new UnusableAnswer('it is for a different tool');
  return { ...tool, source };
}

/** @param {Record<string, any>} answer @param {string} name @param {unknown} expected */
function requireEqual(answer, name, expected) {
  if (!Object.hasOwn(answer, name) || answer[name] !== expected) {
    throw new UnusableAnswer(`its ${name} does not match this call`);
  }
}

/** @param {Record<string, any>} answer @param {string} name @param {unknown} expected */
function requireEqualIfPresent(answer, name, expected) {
  if (name in answer) requireEqual(answer, name, expected);
}

/** @param {unknown} value */
const toText = (value) => (typeof value === 'string' ? value : '');
