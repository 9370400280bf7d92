/**
 * Asking Toolcards' gate over HTTP, from any server-side JavaScript (Node 22+, Bun, Deno, edge). Needs `answers.mjs`.
 *
 *     const said = await ask({ tool: 'bash', callId: 'call_1', args: { command: 'ls' } }, { run: 'chat-7' });
 *     if (said.allowed) await result(said.call, { outcome: 'ok', output: execute(said.args) }, { run: 'chat-7' });
 *
 * Fails closed: a tool runs only on a whole, bounded 200 with one strict JSON object about this very call. It holds an
 * agent key, so it must never reach a browser.
 *
 * @import { Question } from './answers.mjs'
 *
 * @typedef {object} Options
 * @property {string} [url]      where Toolcards is, such as http://127.0.0.1:8000 (the environment's TOOLCARDS_URL)
 * @property {string} [key]      an agent key, scopes `decide` and `result` (TOOLCARDS_AGENT_KEY)
 * @property {string} run        your id of this chat: 1 to 200 printable characters, the same for all its requests
 * @property {string} [agent]    the agent's name on the cards
 * @property {number} [seconds]  how long a person may take (the policy's own time, else 900)
 * @property {AbortSignal} [signal]  takes the question back when the chat is stopped
 * @property {string} [kind]     what the tools do, in Toolcards' words (`read`, `execute`, …)
 * @property {(error: unknown) => void} [onError]
 * @property {(work: Promise<unknown>) => void} [waitUntil]  for platforms that freeze a function after its response
 * @property {typeof fetch} [fetch]
 *
 * @typedef {{ tool: string, callId: string, args: unknown, attempt?: number }} Call  `callId` need not be unique
 * @typedef {{ allowed: boolean, reason: string, args: unknown, edited: boolean, by: string, call: Call }} Verdict
 *   `call` names the call as the server knows it: for `result`
 */

import { NotBound, answered, asSent, callDigest, checkClaim, decisionFor, digest, isFinal, questionOf, toolOf, words } from './answers.mjs';

const POLL = 25; // seconds that one question for an answer is held open by the server
const LATE = 10_000; // ms beyond that after which a server counts as gone
const CLAIMS = 3; // times that one claim is sent while its answer is lost
const PAUSE = 1_000; // ms before the next look at a server that is away, or that answers at once that nobody has answered
const SILENT = 120_000; // ms without a usable word after which a question is given up
const NO = 'The approval gate could not be reached, so nothing was run.';
const STOPPED = 'The run was stopped.';
const now = () => performance.now(); // no clock that may jump
const pause = (/** @type {number} */ ms) => new Promise((done) => setTimeout(done, ms));

/** The gate said no; the message is for the model. */
export class Denied extends Error {
  name = 'Denied';
}

/** Ask the gate and wait for its answer; use up the permit. Never throws: whatever is unclear is a deny.
 * @param {Call} call @param {Options} options @returns {Promise<Verdict>} */
export async function ask(call, options) {
  const asking = new Asking(named(call, options), options);
  try {
    return await asking.answer();
  } catch (error) {
    asking.withdraw();
    return asking.denied(options.signal?.aborted ? STOPPED : why(error));
  }
}

/** @param {any} error */
function why(error) {
  const cause = error?.cause?.code ?? error?.cause?.message;
  const said = `${error instanceof Error ? error.message : error}${cause ? `: ${cause}` : ''}`;
  if (error instanceof NotBound) return `The approval gate's answer cannot be used, so nothing was run: ${said}.`;
  return error?.status ? `The approval gate refused the question: ${said}` : `${NO} (${said})`;
}

/** Tell what came of an allowed call (`said.call`); never throws. @param {Call} call @param {object} outcome @param {Options} options */
export function result(call, outcome, options) {
  const attempt = call.attempt ?? calls(options).get(call.callId)?.attempt ?? 1;
  over({ ...call, attempt }, options);
  const path = `/api/v1/calls/${encodeURIComponent(call.callId)}/result`;
  const work = request({ ...options, signal: undefined }, 'POST', path, { run: options.run, attempt, ...outcome });
  const told = work.catch((error) => heard(options, error));
  options.waitUntil?.(told);
  return told;
}

/** Ask, run with the arguments that were allowed, tell the outcome. Throws Denied.
 * @param {Call} call @param {Options} options @param {(args: unknown, edited: boolean) => any} execute */
export async function runs(call, options, execute) {
  const said = await ask(call, options);
  if (!said.allowed) throw new Denied(said.reason);
  try {
    let output = await execute(said.args, said.edited);
    if (typeof output?.[Symbol.asyncIterator] === 'function') {
      let last;
      for await (const part of output) last = part; // preliminary results: only the last one counts
      output = last;
    }
    result(said.call, { outcome: 'ok', output: output ?? null }, options);
    return output;
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error);
    result(said.call, options.signal?.aborted ? { outcome: 'aborted' } : { outcome: 'error', error: { message } }, options);
    throw error;
  }
}

/** One question. */
class Asking {
  /** @param {Call & { attempt: number }} call @param {Options} options */
  constructor(call, options) {
    this.call = call;
    this.options = options;
    this.pending = '';
    this.until = Infinity;
  }

  /** Wait before the next look, not beyond the time that a person has. */
  rest() {
    return pause(Math.min(PAUSE, Math.max(0, this.until - now())));
  }

  /** @returns {Promise<Verdict>} */
  async answer() {
    const { call, options } = this;
    const question = await questionOf({ ...call, run: options.run }).catch((error) => error);
    if (question instanceof Error) return this.denied(`The call cannot be judged: ${question.message}.`);
    const body = {
      run: options.run, call_id: call.callId, attempt: call.attempt, args: question.args, args_sha256: question.argsSha256,
      tool: { name: call.tool, ...(options.kind ? { kind: options.kind } : {}) },
      ...(options.agent ? { agent_path: [options.agent] } : {}),
    };
    let said = await decisionFor(await request(options, 'POST', '/api/v1/calls/decide', body), question, 'decision');
    const until = (this.until = now() + (options.seconds ?? 900) * 1000);
    let word = now(); // when the server last said something that can be used
    while (said.decision === 'ask') {
      this.pending = said.approval.id;
      if (now() > until) return this.gaveUp('No one answered in time.');
      if (now() - word > SILENT) return this.gaveUp('Toolcards has not answered for two minutes, so nothing was run.');
      const looked = await this.look(question, Math.min(POLL, Math.max(1, (until - now()) / 1000)));
      if (looked) [said, word] = [looked, now()];
    }
    this.pending = '';
    return said.decision === 'allow' ? this.claimed(said, question) : this.denied(words(said));
  }

  /** Look at the question again; nothing where the server is away for now: one that restarts still has it.
   * @param {Question} question @param {number} seconds */
  async look(question, seconds) {
    const began = now();
    const path = `/api/v1/approvals/${encodeURIComponent(this.pending)}?wait=${Math.ceil(seconds)}`;
    let answer;
    try {
      answer = await request(this.options, 'GET', path, undefined, seconds);
    } catch (error) {
      if (this.options.signal?.aborted || isFinal(error)) throw error;
      await this.rest();
      return undefined;
    }
    const said = await decisionFor(answer, question, 'poll');
    if (said.decision !== 'deny' && said.approval?.id !== this.pending) throw new NotBound('it answers another question');
    if (said.decision === 'ask' && now() - began < PAUSE) await this.rest(); // it was to wait
    return said;
  }

  /** @param {Record<string, any>} said @param {Question} question @returns {Promise<Verdict>} */
  async claimed(said, question) {
    const { call, options } = this;
    if (typeof said.permit?.id !== 'string' || !said.permit.id) {
      return this.denied('This call was allowed once before; it is not run a second time.');
    }
    const [tool, runs] = [toolOf(said, question), 'args' in said ? said.args : question.args];
    const body = {
      call_id: question.callId, attempt: question.attempt, args_sha256: said.args_sha256,
      call_sha256: await callDigest(runs, tool), tool: { name: tool.name, source: tool.source }, schema_sha256: question.tool.schema_sha256, claim_id: crypto.randomUUID(),
    };
    await checkClaim(await this.claim(said.permit.id, body), said, question);
    if (options.signal?.aborted) {
      result(call, { outcome: 'aborted' }, options);
      return this.denied(STOPPED);
    }
    const edited = 'args' in said;
    // What was judged is what runs, also where somebody changed the object while a person was asked.
    const kept = !edited && (await digest(asSent(call.args))) === question.argsSha256;
    const args = edited ? said.args : kept ? call.args : question.args;
    return { allowed: true, reason: words(said), args, edited: !kept, by: String(said.by?.kind ?? ''), call };
  }

  /** Send the claim; where its answer is lost, the same one again. @param {string} permit @param {object} body */
  async claim(permit, body) {
    const path = `/api/v1/permits/${encodeURIComponent(permit)}/claim`;
    for (let left = CLAIMS - 1; ; left--) {
      try {
        return await request(this.options, 'POST', path, body);
      } catch (error) {
        if (!left || this.options.signal?.aborted || isFinal(error)) throw error;
        await pause(PAUSE);
      }
    }
  }

  /** @param {string} reason @returns {Verdict} */
  gaveUp(reason) {
    this.withdraw();
    return this.denied(reason);
  }

  /** @param {string} reason @returns {Verdict} */
  denied(reason) {
    over(this.call, this.options);
    return { allowed: false, reason, args: undefined, edited: false, by: '', call: this.call };
  }

  withdraw() {
    if (!this.pending) return;
    const path = `/api/v1/approvals/${encodeURIComponent(this.pending)}/withdraw`;
    const work = request({ ...this.options, signal: undefined }, 'POST', path, {}).catch(() => {});
    this.options.waitUntil?.(work);
  }
}

// ---------------------------------------------------------------- ids that come again

/** @typedef {{ attempt: number, open: boolean }} Known */
const MOST_RUNS = 1_000;
/** @type {Map<string, Map<string, Known>>} the calls of each run, by their ids on the wire */
const runsSeen = new Map();

/** @param {Options} options */
function calls(options) {
  const name = `${base(options)} ${options.run}`;
  const known = runsSeen.get(name) ?? new Map();
  runsSeen.delete(name);
  runsSeen.set(name, known); // the newest last
  if (runsSeen.size > MOST_RUNS) runsSeen.delete(/** @type {string} */ (runsSeen.keys().next().value));
  return known;
}

/** Return the call under an id of its own. Models and providers use ids again: an id whose call has ended is a further
 * attempt; beside one that is still open it is another call, `call_0#2`. What was allowed once never counts for another.
 * @param {Call} call @param {Options} options @returns {Call & { attempt: number }} */
function named(call, options) {
  const known = calls(options);
  let callId = call.callId;
  for (let use = 2; known.get(callId)?.open; use++) callId = `${call.callId}#${use}`;
  const attempt = Math.max(call.attempt ?? 1, (known.get(callId)?.attempt ?? 0) + 1);
  known.set(callId, { attempt, open: true });
  return { ...call, callId, attempt };
}

/** The call has ended. @param {Call} call @param {Options} options */
function over({ callId, attempt }, options) {
  const known = calls(options).get(callId);
  if (known && known.attempt === attempt) known.open = false;
}

/** Every call of the run has ended, whoever ran it: its stream is over. @param {Options} options */
export function ended(options) {
  for (const known of calls(options).values()) known.open = false;
}

// ---------------------------------------------------------------- HTTP

/** Return the JSON object of a 200: whole, at most 2 MiB, within `held` seconds and LATE. Throws for everything else.
 * `once`: an Idempotency-Key. @param {Omit<Options, 'run'> & { once?: string }} options @param {string} method @param {string} path
 * @param {object} [body] @param {number} [held]
 * @returns {Promise<Record<string, any>>} */
export async function request(options, method, path, body, held = 0) {
  const late = new AbortController();
  const stop = options.signal ? AbortSignal.any([options.signal, late.signal]) : late.signal;
  const init = {
    method,
    headers: { ...headers(options, 'application/json'), ...(options.once && { 'idempotency-key': options.once }), accept: 'application/json', 'accept-encoding': 'identity' },
    body: body === undefined ? undefined : JSON.stringify(body),
    redirect: 'manual',
    keepalive: false,
    signal: stop,
  };
  const timer = setTimeout(() => late.abort(new Error('timeout: no whole answer came')), held * 1000 + LATE);
  const stopped = new Promise((_, fail) => {
    const failed = () => fail(stop.reason instanceof Error ? stop.reason : new Error('stopped'));
    stop.aborted ? failed() : stop.addEventListener('abort', failed, { once: true });
  });
  try {
    const work = answered((options.fetch ?? fetch)(base(options) + path, /** @type {any} */ (init)));
    work.catch(() => {}); // where it comes later than the end
    return await Promise.race([work, /** @type {Promise<never>} */ (stopped)]);
  } finally {
    clearTimeout(timer);
    late.abort(new Error('over')); // nobody reads on
  }
}

/** @param {{ url?: string }} options */
export const base = (options) => (options.url ?? environment('TOOLCARDS_URL') ?? 'http://127.0.0.1:8000').replace(/\/+$/, '');

/** @param {string} name @returns {string | undefined} */
const environment = (name) => /** @type {any} */ (globalThis).process?.env?.[name];

/** The headers of every request: a connection carries one, so none that idled is ever met closed.
 * @param {{ key?: string }} options @param {string} type */
export const headers = (options, type) => ({ authorization: `Bearer ${options.key ?? environment('TOOLCARDS_AGENT_KEY') ?? ''}`, 'content-type': type, connection: 'close' });

/** @param {{ onError?: (error: unknown) => void }} options @param {unknown} error */
export function heard(options, error) {
  try {
    options.onError?.(error);
  } catch {} // a watcher that fails changes nothing
}
