// Toolcards for opencode: shows every tool call, and lets no tool run without the gate's answer.
// A plug-in file (https://opencode.ai/docs/plugins) without dependencies; `toolcards connect opencode` writes it.
// Read from and tested with opencode-ai 1.18.33. Whatever goes wrong on the way to an answer is a no.
const SETTINGS = {"url": "http://127.0.0.1:8000", "key": ""} // toolcards-connect

const STOPPED = "Stopped by Toolcards: " // toolcards/adapters/opencode.py knows this beginning
const WAIT = 25 // seconds of one long poll
const KEPT = 5000 // frames kept while the server is away
// What the adapter reads, and whatever else is about tools or permissions: unknown kinds are counted on the server.
const WANTED = /^(session\.(created|idle|error)|message\.part\.delta|permission\..*|.*\b(tool|shell)\b.*)$/

const env = globalThis.process?.env ?? {}
const url = env.TOOLCARDS_URL || SETTINGS.url
const key = env.TOOLCARDS_AGENT_KEY || SETTINGS.key
const pause = (ms) => new Promise((done) => setTimeout(done, ms))

async function call(method, path, body, { signal, seconds = 10 } = {}) {
  const limit = AbortSignal.timeout(seconds * 1000)
  const answer = await fetch(url + path, {
    method,
    headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
    body: body === undefined ? undefined : JSON.stringify(body),
    redirect: "error",
    signal: signal ? AbortSignal.any([signal, limit]) : limit,
  })
  const said = await answer.json().catch(() => null)
  if (!answer.ok || said === null) {
    throw Object.assign(new Error(said?.error?.message ?? `it answered ${answer.status}`), { status: answer.status })
  }
  return said
}

// ---------------------------------------------------------------- frames out

// One queue for each run: frames leave in order, in batches, and come again while the server is away.
class Outbox {
  constructor(run, answered) {
    this.run = run
    this.answered = answered
    this.frames = []
    this.sending = null
  }

  push(frame) {
    this.frames.push(frame)
    if (this.frames.length > KEPT) this.frames.splice(0, this.frames.length - KEPT)
    this.sending ??= this.send()
  }

  async send() {
    await pause(20)
    for (let tries = 0; this.frames.length; ) {
      const batch = this.frames.slice(0, 200)
      try {
        await this.post(batch)
        tries = 0
      } catch (error) {
        if (error.status >= 400 && error.status < 500 && error.status !== 429) tries = 0 // it will never be taken
        else {
          await pause(Math.min(30_000, 500 * 2 ** tries++))
          continue
        }
      }
      this.frames = this.frames.filter((frame) => !batch.includes(frame))
    }
    this.sending = null
  }

  async post(batch) {
    const query = new URLSearchParams({ protocol: "opencode", run: this.run, agent: "opencode", answers: "poll" })
    const said = await call("POST", `/api/v1/ingest?${query}`, batch)
    for (const asked of said.asked ?? []) this.answered(asked)
  }

  // What was said so far shall be known before the gate is asked; if it cannot be, the asking itself will fail.
  async flushed() {
    for (let waited = 0; this.sending && waited < 2000; waited += 10) await pause(10)
  }
}

// ---------------------------------------------------------------- the gate

async function decided(question, signal) {
  let said = await call("POST", "/api/v1/calls/decide", { ...question, wait_ms: WAIT * 1000 }, { signal, seconds: WAIT + 10 })
  while (said.decision === "ask" && said.approval?.id) {
    signal.approval = said.approval.id
    said = await patiently(() => call("GET", `/api/v1/approvals/${said.approval.id}?wait=${WAIT}`, undefined, { signal, seconds: WAIT + 10 }), signal)
  }
  return said
}

// A server that is started anew in the middle of a question still knows it.
async function patiently(ask, signal) {
  for (let tries = 0; ; tries++) {
    try {
      return await ask()
    } catch (error) {
      if (signal.aborted || error.status || tries >= 5) throw error
      await pause(500 * 2 ** tries)
    }
  }
}

async function claimed(said, signal) {
  if (!said.permit?.id) throw new Error("there is a yes, but no permit.")
  const proof = { call_id: said.call_id, args_sha256: said.args_sha256 }
  await call("POST", `/api/v1/permits/${said.permit.id}/claim`, proof, { signal })
}

function reasonOf(said) {
  const { text, suggest } = said.reason ?? {}
  return [text || "No one allowed it.", suggest].filter(Boolean).join(" ")
}

function replaceArgs(args, edited) {
  for (const name of Object.keys(args)) delete args[name]
  Object.assign(args, edited)
}

// ---------------------------------------------------------------- the plug-in

export const Toolcards = async ({ client }) => {
  const parents = new Map() // session -> its parent, "" for none
  const asking = new Map() // session -> the promise that its parent is known
  const outboxes = new Map() // run -> Outbox
  const held = new Map() // session -> the signals of the questions that wait
  const seen = new Set() // calls that the server has heard of

  // A session that began before we listened is asked for, once.
  function introduced(session) {
    if (!parents.has(session) && !asking.has(session)) asking.set(session, introduce(session))
    return asking.get(session)
  }

  async function introduce(session) {
    const { data } = await client.session.get({ path: { id: session } }).catch(() => ({}))
    parents.set(session, data?.parentID ?? "")
    if (data?.parentID) await introduced(data.parentID)
    if (data) tell(session, { type: "session.created", properties: { sessionID: session, info: data } })
  }

  function runOf(session) {
    for (let steps = 0; parents.get(session) && steps < 32; steps++) session = parents.get(session)
    return session
  }

  function outboxOf(session) {
    const run = runOf(session)
    if (!outboxes.has(run)) outboxes.set(run, new Outbox(run, (asked) => mirror(asked).catch(() => {})))
    return outboxes.get(run)
  }

  function tell(session, frame) {
    outboxOf(session).push(frame)
  }

  // A question of opencode's own: if somebody answers it at the server, that answer goes to opencode.
  async function mirror({ id, source_id: permission }) {
    let said
    do {
      said = await patiently(() => call("GET", `/api/v1/approvals/${id}?wait=${WAIT}`, undefined, { seconds: WAIT + 10 }), {})
    } while (said.approval?.id === id && said.approval.state === "pending")
    const state = said.approval?.id === id ? said.approval.state : ""
    if (said.by?.kind !== "human" || !["approved", "claimed", "denied"].includes(state)) return
    const body = state === "denied" ? { reply: "reject", message: reasonOf(said) } : { reply: "once" }
    const post = client._client.post.bind(client._client)
    await post({ url: "/permission/{id}/reply", path: { id: permission }, body, headers: { "content-type": "application/json" } })
  }

  function interrupted(session) {
    for (const signal of held.get(session) ?? []) signal.stop()
    held.delete(session)
  }

  async function gate(input, args) {
    const stop = new AbortController()
    const signal = Object.assign(stop.signal, { stop: () => stop.abort(new Error("the session was interrupted.")) })
    held.set(input.sessionID, (held.get(input.sessionID) ?? new Set()).add(signal))
    const question = { run: runOf(input.sessionID), call_id: input.callID, tool: { name: input.tool }, args: args ?? {} }
    try {
      const said = await decided(question, signal)
      if (said.decision !== "allow") return reasonOf(said)
      await claimed(said, signal)
      if (said.args) replaceArgs(args, said.args)
      return ""
    } catch (error) {
      if (signal.aborted && signal.approval) await call("POST", `/api/v1/approvals/${signal.approval}/withdraw`, {}).catch(() => {})
      const away = !error.status && !signal.aborted
      return away ? `it cannot be reached (${error.message}), and nothing runs without its answer.` : error.message
    } finally {
      held.get(input.sessionID)?.delete(signal)
    }
  }

  return {
    event: async ({ event }) => {
      const told = event.properties ?? {}
      const part = told.part
      const session = told.sessionID ?? part?.sessionID
      if (!session || !(WANTED.test(event.type) || (event.type === "message.part.updated" && part?.type === "tool"))) return
      if (event.type === "session.created") parents.set(session, told.info?.parentID ?? "")
      else await introduced(session)
      if (part) seen.add(part.callID)
      if (event.type === "session.error" || event.type === "session.idle") interrupted(session)
      tell(session, event)
      if (event.type === "session.idle") await outboxOf(session).flushed()
    },

    "tool.execute.before": async (input, output) => {
      if (input.tool === "invalid") return // the model's mistake, told to it by opencode; nothing runs
      await introduced(input.sessionID)
      if (!seen.has(input.callID)) {
        seen.add(input.callID)
        const state = { status: "running", input: output.args }
        const part = { type: "tool", tool: input.tool, callID: input.callID, sessionID: input.sessionID, state }
        tell(input.sessionID, { type: "message.part.updated", properties: { sessionID: input.sessionID, part } })
      }
      await outboxOf(input.sessionID).flushed()
      const refusal = await gate(input, output.args)
      if (refusal) throw new Error(STOPPED + refusal)
    },
  }
}
