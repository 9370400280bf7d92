/**
 * Ask Toolcards' gate over HTTP, from any server-side JavaScript (Node 22+, Bun, Deno, edge functions).
 * Needs `gate-answers.mjs`, `gate-http.mjs` and `call-ids.mjs` in the same folder.
 *
 *     const decision = await ask({ tool: 'bash', callId: 'call_1', args: { command: 'ls' } }, { run: 'chat-7' });
 *     if (decision.allowed) {
 *       await result(decision.call, { outcome: 'ok', output: execute(decision.args) }, { run: 'chat-7' });
 *     }
 *
 * Fails closed: a tool runs only on a complete, bounded 200 with one strict JSON object about exactly this call. It
 * holds an agent key, so it must never reach a browser.
 *
 * @import { GateRequest } from './gate-answers.mjs'
 *
 * @typedef {object} Options
 * @property {string} [url]      the address of Toolcards, such as http://127.0.0.1:8000 (default: TOOLCARDS_URL)
 * @property {string} [key]      an agent key with the scopes `decide` and `result` (default: TOOLCARDS_AGENT_KEY)
 * @property {string} run        your id of this chat: 1 to 200 printable characters, the same for all its requests
 * @property {string} [agent]    the agent's name on the cards
 * @property {number} [seconds]  how long a person may take (default: the policy's own time, else 900)
 * @property {AbortSignal} [signal]  withdraws the approval request when the chat is stopped
 * @property {string} [kind]     the kind of the tools, as Toolcards names it (`read`, `execute`, …)
 * @property {(error: unknown) => void} [onError]
 * @property {(work: Promise<unknown>) => void} [waitUntil]  for platforms that freeze a function after its response
 * @property {typeof fetch} [fetch]
 *
 * @typedef {{ tool: string, callId: string, args: unknown, attempt?: number }} Call  `callId` need not be unique
 * @typedef {{ allowed: boolean, reason: string, args: unknown, edited: boolean, by: string, call: Call }} Decision
 *   `call` names the call as the server knows it: for `result`
 */

import { closeCall, findAttempt, openCall } from './call-ids.mjs';
import { buildGateRequest, checkClaim, checkDecision, digest, digestCall, findTool, formatReason, toWire } from './gate-answers.mjs';
import { cutValue } from './payload-limits.mjs';
import { UnusableAnswer, deliver, findBase, isFinal, mayHaveArrived, request } from './gate-http.mjs';

const POLL_SECONDS = 25; // the server holds one poll this long
const MAX_CLAIMS = 3; // attempts to send one claim while its answer is lost
const RETRY_MS = 1_000; // pause before the next poll if the server is unreachable or answers without waiting
const MAX_SILENCE_MS = 120_000; // without a usable answer for this long, the approval request is withdrawn
const UNREACHABLE = 'The approval gate could not be reached, so nothing was run.';
const STOPPED = 'The run was stopped.';
const readClock = () => performance.now(); // a monotonic clock
const sleep = (/** @type {number} */ ms) => new Promise((resolve) => setTimeout(resolve, ms));

/** The gate denied the call; the message is for the model. */
export class Denied extends Error {
  name = 'Denied';
}

/**
 * Ask the gate, wait for its decision, and claim the permit. Never throws: everything unclear is a denial.
 *
 * @param {Call} call
 * @param {Options} options
 * @returns {Promise<Decision>}
 */
export async function ask(call, options) {
  const gateCall = new GateCall(openCall(nameRun(options), call), options);
  try {
    return await gateCall.decide();
  } catch (error) {
    gateCall.release();
    return gateCall.deny(options.signal?.aborted ? STOPPED : explainFailure(error));
  }
}

/** @param {any} error */
function explainFailure(error) {
  const cause = error?.cause?.code ?? error?.cause?.message;
  const text = `${error instanceof Error ? error.message : error}${cause ? `: ${cause}` : ''}`;
  if (error instanceof UnusableAnswer) {
    return `The approval gate's answer cannot be used, so nothing was run: ${text}.`;
  }
  return error?.status ? `The approval gate refused the request: ${text}` : `${UNREACHABLE} (${text})`;
}

/**
 * Report the outcome of an allowed call (`decision.call`); never throws. What the server does not answer is sent again
 * in the background; the promise is that of the first attempt.
 *
 * @param {Call} call
 * @param {object} outcome
 * @param {Options} options
 */
export function result(call, outcome, options) {
  const attempt = call.attempt ?? findAttempt(nameRun(options), call.callId);
  closeCall(nameRun(options), { ...call, attempt });
  const path = `/api/v1/calls/${encodeURIComponent(call.callId)}/result`;
  const body = { run: options.run, attempt, ...cutOutcome(outcome) };
  const { first, whole } = deliver(options, path, body);
  options.waitUntil?.(whole);
  return first;
}

/** Cut what is too long for the server. @param {any} outcome */
function cutOutcome(outcome) {
  const { output, error } = outcome;
  return {
    ...outcome,
    ...(output === undefined ? {} : { output: cutValue(output) }),
    ...(typeof error?.message === 'string' ? { error: { ...error, message: cutValue(error.message) } } : {}),
  };
}

/**
 * Ask, run with the allowed arguments, and report the outcome. Throws Denied.
 *
 * @param {Call} call
 * @param {Options} options
 * @param {(args: unknown, edited: boolean) => any} execute
 */
export async function runs(call, options, execute) {
  const decision = await ask(call, options);
  if (!decision.allowed) throw new Denied(decision.reason);
  try {
    let output = await execute(decision.args, decision.edited);
    if (typeof output?.[Symbol.asyncIterator] === 'function') {
      let last;
      for await (const part of output) last = part; // preliminary results: only the last one counts
      output = last;
    }
    result(decision.call, { outcome: 'ok', output: output ?? null }, options);
    return output;
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error);
    const failure = options.signal?.aborted ? { outcome: 'aborted' } : { outcome: 'error', error: { message } };
    result(decision.call, failure, options);
    throw error;
  }
}

/** Return the name of a run among those of all servers. @param {Options} options */
export const nameRun = (options) => `${findBase(options)} ${options.run}`;

/** One call on its way through the gate. */
class GateCall {
  /** @param {Call & { attempt: number }} call @param {Options} options */
  constructor(call, options) {
    this.call = call;
    this.options = options;
    this.approvalId = ''; // of the approval that is open
    this.isOpen = false; // the server may count on a call that no one runs
    this.deadline = Infinity;
  }

  /** For reports that are none of the app's. */
  get silentOptions() {
    return { ...this.options, onError: undefined };
  }

  /** Wait before the next poll, but not beyond the deadline. */
  pause() {
    return sleep(Math.min(RETRY_MS, Math.max(0, this.deadline - readClock())));
  }

  /** @returns {Promise<Decision>} */
  async decide() {
    const { call, options } = this;
    const gateRequest = await buildGateRequest({ ...call, run: options.run }).catch((error) => error);
    if (gateRequest instanceof Error) return this.deny(`The call cannot be evaluated: ${gateRequest.message}.`);
    const body = {
      run: options.run, call_id: call.callId, attempt: call.attempt,
      args: gateRequest.args, args_sha256: gateRequest.argsSha256,
      tool: { name: call.tool, ...(options.kind ? { kind: options.kind } : {}) },
      ...(options.agent ? { agent_path: [options.agent] } : {}),
    };
    const answer = await request(options, 'POST', '/api/v1/calls/decide', body).catch((error) => {
      this.isOpen = mayHaveArrived(error);
      throw error;
    });
    this.isOpen = true;
    let decision = await checkDecision(answer, gateRequest, 'decision');
    this.deadline = readClock() + (options.seconds ?? 900) * 1000;
    let lastAnswerAt = readClock();
    while (decision.decision === 'ask') {
      this.approvalId = decision.approval.id;
      if (readClock() > this.deadline) return this.giveUp('No one answered in time.', true);
      if (readClock() - lastAnswerAt > MAX_SILENCE_MS) {
        return this.giveUp('Toolcards has not answered for two minutes, so nothing was run.');
      }
      const seconds = Math.min(POLL_SECONDS, Math.max(1, (this.deadline - readClock()) / 1000));
      const polled = await this.poll(gateRequest, seconds);
      if (polled) [decision, lastAnswerAt] = [polled, readClock()];
    }
    this.approvalId = '';
    return decision.decision === 'allow' ? this.claim(decision, gateRequest) : this.deny(formatReason(decision));
  }

  /**
   * Poll the approval; returns nothing while the server is unreachable, since a restarted one still has it.
   *
   * @param {GateRequest} gateRequest
   * @param {number} seconds
   */
  async poll(gateRequest, seconds) {
    const startedAt = readClock();
    const path = `/api/v1/approvals/${encodeURIComponent(this.approvalId)}?wait=${Math.ceil(seconds)}`;
    let answer;
    try {
      answer = await request(this.options, 'GET', path, undefined, seconds);
    } catch (error) {
      if (this.options.signal?.aborted || isFinal(error)) throw error;
      await this.pause();
      return undefined;
    }
    const decision = await checkDecision(answer, gateRequest, 'poll');
    if (decision.decision !== 'deny' && decision.approval?.id !== this.approvalId) {
      throw new UnusableAnswer('it answers another approval request');
    }
    if (decision.decision === 'ask' && readClock() - startedAt < RETRY_MS) await this.pause(); // it did not wait
    return decision;
  }

  /** @param {Record<string, any>} decision @param {GateRequest} gateRequest @returns {Promise<Decision>} */
  async claim(decision, gateRequest) {
    const { call, options } = this;
    if (typeof decision.permit?.id !== 'string' || !decision.permit.id) {
      return this.deny('This call was already allowed once and does not run again.');
    }
    const isEdited = 'args' in decision;
    const tool = findTool(decision, gateRequest);
    const body = {
      call_id: gateRequest.callId, attempt: gateRequest.attempt, args_sha256: decision.args_sha256,
      call_sha256: await digestCall(isEdited ? decision.args : gateRequest.args, tool),
      tool: { name: tool.name, source: tool.source }, schema_sha256: gateRequest.tool.schema_sha256,
      claim_id: crypto.randomUUID(),
    };
    await checkClaim(await this.sendClaim(decision.permit.id, body), decision, gateRequest);
    if (options.signal?.aborted) throw new Error(STOPPED);
    // The judged arguments run, even if the object was changed while a person was asked.
    const isUnchanged = !isEdited && (await digest(toWire(call.args))) === gateRequest.argsSha256;
    const args = isEdited ? decision.args : isUnchanged ? call.args : gateRequest.args;
    const by = String(decision.by?.kind ?? '');
    return { allowed: true, reason: formatReason(decision), args, edited: !isUnchanged, by, call };
  }

  /** Send the claim; if its answer is lost, send it again unchanged. @param {string} permit @param {object} body */
  async sendClaim(permit, body) {
    const path = `/api/v1/permits/${encodeURIComponent(permit)}/claim`;
    for (let remaining = MAX_CLAIMS - 1; ; remaining--) {
      try {
        return await request(this.options, 'POST', path, body);
      } catch (error) {
        this.isOpen = !isFinal(error);
        if (!remaining || this.options.signal?.aborted || !this.isOpen) throw error;
        await sleep(RETRY_MS);
      }
    }
  }

  /** @param {string} reason @param {boolean} [isTimedOut] @returns {Decision} */
  giveUp(reason, isTimedOut = false) {
    this.withdraw(isTimedOut);
    return this.deny(reason);
  }

  /** @param {string} reason @returns {Decision} */
  deny(reason) {
    closeCall(nameRun(this.options), this.call);
    return { allowed: false, reason, args: undefined, edited: false, by: '', call: this.call };
  }

  /** Report that the call will not run, if the server may count on it. */
  release() {
    if (this.approvalId) this.withdraw();
    else if (this.isOpen) result(this.call, { outcome: 'aborted', side_effects: 'none' }, this.silentOptions);
  }

  /** @param {boolean} [isTimedOut]  the agent's own time limit has passed, which is a denial on the card */
  withdraw(isTimedOut = false) {
    const path = `/api/v1/approvals/${encodeURIComponent(this.approvalId)}/withdraw`;
    const { whole } = deliver(this.silentOptions, path, isTimedOut ? { timed_out: true } : {});
    this.options.waitUntil?.(whole);
  }
}
