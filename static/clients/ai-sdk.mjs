/**
 * Toolcards for the Vercel AI SDK 6 and 7 (read from `ai` 7.0.173 and 6.0.326): watch a chat's tool calls, and gate them.
 *
 * One file without dependencies, for servers (Node 22+, Bun, Deno, edge): copy it into your project. It holds an agent
 * key, so it must never reach a browser, and Toolcards answers no cross-origin request.
 *
 *     import { mirror, mirrorRequest, toolApproval } from './ai-sdk.mjs';
 *     const toolcards = { run: chatId };     // address and key: TOOLCARDS_URL and TOOLCARDS_AGENT_KEY, or url and key here
 *     mirrorRequest(body, toolcards);                                                   // answers given in the chat
 *     const result = streamText({ …, toolApproval: toolApproval(toolcards) });          // AI SDK 7: ask the gate
 *     return mirror(result.toUIMessageStreamResponse(), toolcards);                     // watch
 *
 * Watching fails open and silent: without Toolcards the stream is the same, to the byte.
 * Gating fails closed: without an answer the tool does not run, and the model is told why.
 *
 * @typedef {object} Options
 * @property {string} [url]       where Toolcards is, such as http://127.0.0.1:8000 (the environment's TOOLCARDS_URL)
 * @property {string} [key]       an agent key, scopes `ingest` to watch, `decide` and `result` to gate (TOOLCARDS_AGENT_KEY)
 * @property {string} run         your id of this chat: 1 to 200 printable characters, the same for all its requests
 * @property {string} [agent]     the agent's name on the cards
 * @property {string} [protocol]  what the mirrored stream speaks: `ai-sdk` (default), `tanstack` or `ag-ui`
 * @property {object} [request]   mirror: the body of the request that is being answered, see `mirrorRequest`
 * @property {number} [limit]     mirror: bytes that may wait for a slow Toolcards; beyond them the copy is given up (1 MiB)
 * @property {number} [seconds]   gate: how long a person may take (the policy's own time, else 900)
 * @property {AbortSignal} [signal]  gate: takes the question back when the chat is stopped
 * @property {string} [kind]      gate: what the tools do, in Toolcards' words (`read`, `execute`, …)
 * @property {(error: unknown) => void} [onError]  hears what went wrong while watching; by default nobody does
 * @property {(work: Promise<unknown>) => void} [waitUntil]  for platforms that freeze a function after its response
 * @property {typeof fetch} [fetch]
 *
 * @typedef {{ tool: string, callId: string, args: unknown }} Call
 * @typedef {{ allowed: boolean, reason: string, args: unknown, edited: boolean, by: string }} Verdict
 */

const POLL = 25; // seconds that one question for an answer is held open by the server
const LATE = 10_000; // ms beyond that after which a server counts as gone
const AFTER = 5_000; // ms that the copy of a finished stream may still take
const LIMIT = 1 << 20;
const NO = 'The approval gate could not be reached, so nothing was run.';
const pause = (/** @type {number} */ ms) => new Promise((done) => setTimeout(done, ms));

// ---------------------------------------------------------------- watching

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
  const init = { method: 'POST', headers: headers(options, 'application/x-ndjson'), body, signal: AbortSignal.timeout(AFTER) };
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
class Copy {
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
    if (!copies.get(this.options.run)?.size) copies.delete(this.options.run);
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
    const init = { method: 'POST', headers: headers(options, type), body: this.body, duplex: 'half', signal: this.cut.signal };
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

/**
 * AI SDK 7, where there is no UI message stream (`generateText`, agents): `telemetry: { integrations: [telemetry(options)] }`.
 * Shows the calls that are executed; calls that are refused before (unknown tool, invalid input) it does not see.
 * Make a new one for each call of the SDK.
 *
 * @param {Options} options
 */
export function telemetry(options) {
  const copy = new Copy({ ...options, protocol: 'native' });
  const end = (/** @type {string} */ outcome) => {
    copy.add({ type: 'run.finished', outcome });
    copy.end();
  };
  return {
    onToolExecutionStart(/** @type {any} */ { toolCall: { toolCallId, toolName, input } }) {
      copy.add({ type: 'tool.input.available', call_id: toolCallId, tool: toolName, input: input ?? {} });
    },
    onToolExecutionEnd(/** @type {any} */ { toolCall: { toolCallId }, toolOutput }) {
      const { error, output } = toolOutput ?? {};
      const message = error instanceof Error ? error.message : String(error ?? '');
      copy.add(
        toolOutput?.type === 'tool-error'
          ? { type: 'tool.output.error', call_id: toolCallId, error: { message } }
          : { type: 'tool.output.available', call_id: toolCallId, output: output ?? null },
      );
    },
    onEnd: () => end('success'),
    onAbort: () => end('aborted'),
    onError: () => end('error'),
  };
}

// ---------------------------------------------------------------- gating

/**
 * AI SDK 7: `streamText({ …, toolApproval: toolApproval(options) })` (also `generateText`). Every call is judged by
 * Toolcards' policy; where it asks, the stream waits until a person has answered. A person's edit of the arguments
 * cannot be handed to the SDK here: the call is refused, and the model told what the reviewer wants (see `gated`).
 *
 * @param {Options} options
 * @returns {(asked: { toolCall: { toolName: string, toolCallId: string, input: unknown } }) =>
 *   Promise<'not-applicable' | { type: 'approved' | 'denied', reason?: string }>}
 */
export function toolApproval(options) {
  return async ({ toolCall }) => {
    const call = { tool: toolCall.toolName, callId: toolCall.toolCallId, args: toolCall.input };
    const said = unedited(await ask(call, options));
    if (!said.allowed) return { type: 'denied', reason: said.reason };
    return said.by === 'human' ? { type: 'approved', reason: said.reason } : 'not-applicable';
  };
}

/**
 * AI SDK 6: `tool({ …, needsApproval: needsApproval('bash', options) })`. Version 6 knows only yes and "ask the user":
 * a no from Toolcards is thrown, so that the chat's own user cannot overrule it. The stream then carries an error and
 * the model does not read the reason; `gated` tells it.
 *
 * @param {string} tool  its name
 * @param {Options} options
 * @returns {(input: unknown, about: { toolCallId: string }) => Promise<false>}
 */
export function needsApproval(tool, options) {
  return async (args, { toolCallId }) => {
    const said = unedited(await ask({ tool, callId: toolCallId, args }, options));
    if (!said.allowed) throw new Denied(said.reason);
    return false;
  };
}

/**
 * Any version: `tools: gated(tools, options)`. Each tool with an `execute` asks right before it runs, runs with the
 * arguments as a person edited them, and tells what came of it. A no is an error whose text the model reads.
 *
 * @template {Record<string, any>} T
 * @param {T} tools
 * @param {Options} options
 * @returns {T}
 */
export function gated(tools, options) {
  const wrapped = Object.entries(tools).map(([name, tool]) => [
    name,
    typeof tool?.execute !== 'function' ? tool : Object.assign(Object.create(Object.getPrototypeOf(tool)), tool, {
      execute: (/** @type {unknown} */ args, /** @type {any} */ about) => {
        const call = { tool: name, callId: about?.toolCallId ?? `call-${crypto.randomUUID()}`, args };
        const heeded = { ...options, signal: about?.abortSignal ?? options.signal };
        return runs(call, heeded, (allowed) => tool.execute.call(tool, allowed, about));
      },
    }),
  ]);
  return /** @type {any} */ (Object.fromEntries(wrapped));
}

/** Ask, run with the arguments that were allowed, tell the outcome. Throws Denied.
 * @param {Call} call @param {Options} options @param {(args: unknown) => any} execute */
export async function runs(call, options, execute) {
  const said = await ask(call, options);
  if (!said.allowed) throw new Denied(said.reason);
  try {
    let output = await execute(said.args);
    if (typeof output?.[Symbol.asyncIterator] === 'function') {
      let last;
      for await (const part of output) last = part; // preliminary results: only the last one counts
      output = last;
    }
    result(call, { outcome: 'ok', output: output ?? null }, options);
    return output;
  } catch (error) {
    const aborted = options.signal?.aborted;
    const message = error instanceof Error ? error.message : String(error);
    result(call, aborted ? { outcome: 'aborted' } : { outcome: 'error', error: { message } }, options);
    throw error;
  }
}

/** The gate said no; the message is for the model. */
export class Denied extends Error {
  name = 'Denied';
}

/**
 * Ask the gate and wait for its answer; use up the permit. Never throws: whatever is unclear is a no.
 *
 * @param {Call} call
 * @param {Options} options
 * @returns {Promise<Verdict>}
 */
export async function ask(call, options) {
  const gate = new Gate(call, options);
  try {
    await Promise.all([...(copies.get(options.run) ?? [])].map((copy) => copy.passed(call.callId)));
    return await gate.answer();
  } catch (error) {
    gate.withdraw();
    return denied(options.signal?.aborted ? 'The run was stopped.' : `${NO} (${error instanceof Error ? error.message : error})`);
  }
}

/** Tell what came of an allowed call; never throws. @param {Call} call @param {object} outcome @param {Options} options */
export function result(call, outcome, options) {
  const body = { run: options.run, ...outcome };
  const work = request(options, 'POST', `/api/v1/calls/${encodeURIComponent(call.callId)}/result`, body).catch((error) => heard(options, error));
  options.waitUntil?.(work);
  return work;
}

/** One question. */
class Gate {
  /** @param {Call} call @param {Options} options */
  constructor(call, options) {
    this.call = call;
    this.options = options;
    this.pending = '';
  }

  /** @returns {Promise<Verdict>} */
  async answer() {
    const { call, options } = this;
    const { run, agent, kind } = options;
    const tool = kind ? { name: call.tool, kind } : call.tool;
    const path = agent ? { agent_path: [agent] } : {};
    let said = await this.once('POST', '/api/v1/calls/decide', { run, call_id: call.callId, tool, args: call.args ?? {}, ...path });
    const until = Date.now() + (options.seconds ?? 900) * 1000;
    while (said.decision === 'ask' && typeof said.approval?.id === 'string') {
      this.pending = said.approval.id;
      if (Date.now() > until) {
        this.withdraw();
        return denied('Nobody answered in time.');
      }
      said = await this.look(Math.min(POLL, Math.max(1, (until - Date.now()) / 1000)), said);
    }
    this.pending = '';
    return said.decision === 'allow' ? this.claimed(said) : denied(words(said));
  }

  /** Look at the question again; a server that restarts still has it. @param {number} seconds @param {any} said */
  async look(seconds, said) {
    const path = `/api/v1/approvals/${encodeURIComponent(this.pending)}?wait=${Math.ceil(seconds)}`;
    try {
      return await this.once('GET', path, undefined, seconds);
    } catch (error) {
      const status = /** @type {any} */ (error).status ?? 0;
      if (this.options.signal?.aborted || (status >= 400 && status < 500 && status !== 429)) throw error;
      await pause(1000);
      return said;
    }
  }

  /** @param {any} said @returns {Promise<Verdict>} */
  async claimed(said) {
    const { call } = this;
    if (typeof said.permit?.id !== 'string') return denied('This call was allowed once before; it is not run a second time.');
    const body = { call_id: call.callId, args_sha256: said.args_sha256 };
    const path = `/api/v1/permits/${encodeURIComponent(said.permit.id)}/claim`;
    const again = async (/** @type {any} */ error) => {
      if (error.status || this.options.signal?.aborted) throw error;
      await pause(1000); // a connection that broke; a permit that was used all the same says so
      return this.once('POST', path, body);
    };
    const told = await this.once('POST', path, body).catch(again);
    if (told.state !== 'claimed') return denied(NO);
    const edited = 'args' in said;
    const by = String(said.by?.kind ?? '');
    return { allowed: true, reason: words(said), args: edited ? said.args : call.args, edited, by };
  }

  /** @param {string} method @param {string} path @param {object} [body] @param {number} [held] */
  once(method, path, body, held = 0) {
    return request(this.options, method, path, body, held);
  }

  withdraw() {
    if (!this.pending) return;
    const path = `/api/v1/approvals/${encodeURIComponent(this.pending)}/withdraw`;
    request({ ...this.options, signal: undefined }, 'POST', path, {}).catch(() => {});
  }
}

/** The SDK cannot run other arguments than the model's: then it must not run at all. @param {Verdict} said @returns {Verdict} */
function unedited(said) {
  if (!said.allowed || !said.edited) return said;
  return denied(`A reviewer changed the arguments. If that serves you, call the tool again with ${JSON.stringify(said.args)}`);
}

/** @param {string} reason @returns {Verdict} */
function denied(reason) {
  return { allowed: false, reason, args: undefined, edited: false, by: '' };
}

/** @param {any} said @returns {string} */
function words(said) {
  return [said.reason?.text, said.reason?.suggest].filter((part) => typeof part === 'string' && part).join(' ') || 'The gate did not allow this call.';
}

// ---------------------------------------------------------------- HTTP

/** @param {Options} options @param {string} method @param {string} path @param {object} [body] @param {number} [held]
 * @returns {Promise<any>} */
async function request(options, method, path, body, held = 0) {
  const late = AbortSignal.timeout(held * 1000 + LATE);
  const answer = await (options.fetch ?? fetch)(base(options) + path, {
    method,
    headers: headers(options, 'application/json'),
    body: body === undefined ? undefined : JSON.stringify(body),
    redirect: 'error',
    signal: options.signal ? AbortSignal.any([options.signal, late]) : late,
  });
  const said = await answer.json().catch(() => null);
  if (answer.status === 200 && said && typeof said === 'object') return said;
  throw Object.assign(new Error(said?.error?.message ?? `it answered ${answer.status}`), { status: answer.status });
}

/** @param {Options} options */
const base = (options) => (options.url ?? environment('TOOLCARDS_URL') ?? 'http://127.0.0.1:8000').replace(/\/+$/, '');

/** @param {string} name @returns {string | undefined} */
const environment = (name) => /** @type {any} */ (globalThis).process?.env?.[name];

/** @param {Options} options */
function ingest({ url, run, agent, protocol }) {
  const query = new URLSearchParams({ protocol: protocol ?? 'ai-sdk', ...(run ? { run } : {}), ...(agent ? { agent } : {}) });
  return `${base(/** @type {any} */ ({ url }))}/api/v1/ingest?${query}`;
}

/** @param {Options} options @param {string} type */
const headers = (options, type) => ({ authorization: `Bearer ${options.key ?? environment('TOOLCARDS_AGENT_KEY') ?? ''}`, 'content-type': type });

/** @param {Options} options @param {unknown} error */
function heard(options, error) {
  try {
    options.onError?.(error);
  } catch {
    // watching disturbs nobody
  }
}
