// Toolcards for opencode: shows every tool call, and lets no tool run without the gate's answer.
// A plug-in file (https://opencode.ai/docs/plugins); `toolcards connect opencode` writes it, with the two modules that it
// imports, into a folder that opencode does not look for plug-ins in. Read from and tested with opencode-ai 1.18.33.
// Whatever goes wrong on the way to an answer is a no.
import { ask, request } from "../toolcards/asking.mjs"

const SETTINGS = {"url": "http://127.0.0.1:8000", "key": ""} // toolcards-connect

const STOPPED = "Stopped by Toolcards: " // toolcards/adapters/opencode.py knows this beginning
const WAIT = 25 // seconds of one long poll
const KEPT = 5000 // frames kept while the server is away, and calls that are known
const LONGEST = 7 * 86_400 // seconds after which a question that nobody answers is given up in any case
// What the adapter reads, and whatever else is about tools or permissions: unknown kinds are counted on the server.
const WANTED = /^(session\.(created|idle|error)|message\.part\.delta|permission\..*|.*\b(tool|shell)\b.*)$/

const env = globalThis.process?.env ?? {}
const url = env.TOOLCARDS_URL || SETTINGS.url
const key = env.TOOLCARDS_AGENT_KEY || SETTINGS.key
const server = { url, key }
const pause = (ms) => new Promise((done) => setTimeout(done, ms))

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
    for (let tries = 0, batch = [], once = ""; this.frames.length; ) {
      if (!batch.length) [batch, once] = [this.frames.slice(0, 200), crypto.randomUUID()] // the same in every try
      try {
        await this.post(batch, once)
        tries = 0
      } catch (error) {
        // 409: the try before is still being read there. Any other refusal is final.
        if (error.status >= 400 && error.status < 500 && ![409, 429].includes(error.status)) tries = 0
        else {
          await pause(Math.min(30_000, 500 * 2 ** tries++))
          continue
        }
      }
      this.frames = this.frames.filter((frame) => !batch.includes(frame))
      batch = []
    }
    this.sending = null
  }

  async post(batch, once) {
    const query = new URLSearchParams({ protocol: "opencode", run: this.run, agent: "opencode", answers: "poll" })
    const said = await request({ ...server, once }, "POST", `/api/v1/ingest?${query}`, batch)
    for (const asked of said.asked ?? []) this.answered(asked)
  }

  // What was said so far shall be known before the gate is asked; if it cannot be, the asking itself will fail.
  async flushed() {
    for (let waited = 0; this.sending && waited < 2000; waited += 10) await pause(10)
  }
}

// ---------------------------------------------------------------- one id for several calls

// Models use call ids again: in later turns, in parallel, and in sub-agents, whose calls are in the same run. What is
// known of each call by its session and part; on the wire each has an id of its own: `call_0`, then `call_0#2`.
class Calls {
  constructor() {
    this.known = [] // { session, id, tool, part, wire, gated, over }
    this.wires = new Set() // run and id of every call
  }

  // The call that an event's part is about.
  ofPart(run, { sessionID: session, callID: id, tool, id: part }) {
    const same = (call) => call.session === session && call.id === id
    const found = this.known.find((call) => same(call) && call.part === part)
    const begun = () => this.known.find((call) => same(call) && !call.part && call.tool === tool && !call.over)
    const call = found ?? begun() ?? this.add(run, session, id, tool)
    call.part ??= part
    return call
  }

  // The call that is about to run: it is gated once.
  gate(run, { sessionID: session, callID: id, tool }) {
    const waits = (call) => call.session === session && call.id === id && call.tool === tool && !call.gated && !call.over
    const found = this.known.find(waits)
    const call = found ?? this.add(run, session, id, tool)
    call.gated = true
    return [call, !found]
  }

  // The newest call of that id, for events that name nothing else.
  latest(session, id) {
    return this.known.findLast((call) => call.session === session && call.id === id)
  }

  add(run, session, id, tool) {
    let wire = id
    for (let use = 2; this.wires.has(`${run} ${wire}`); use++) wire = `${id}#${use}`
    this.wires.add(`${run} ${wire}`)
    const call = { session, id, tool, wire, gated: false, over: false }
    this.known.push(call)
    if (this.known.length > KEPT) this.known.shift()
    return call
  }
}

const ENDED = new Set(["completed", "error"])

function replaceArgs(args, edited) {
  for (const name of Object.keys(args)) delete args[name]
  Object.assign(args, edited)
}

// A server that is started anew in the middle of a question still knows it.
async function patiently(look) {
  for (let tries = 0; ; tries++) {
    try {
      return await look()
    } catch (error) {
      if (error.status || tries >= 5) throw error
      await pause(500 * 2 ** tries)
    }
  }
}

// ---------------------------------------------------------------- the plug-in

export const Toolcards = async ({ client }) => {
  const parents = new Map() // session -> its parent, "" for none
  const asking = new Map() // session -> the promise that its parent is known
  const outboxes = new Map() // run -> Outbox
  const held = new Map() // session -> the signals of the questions that wait
  const calls = new Calls()

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
    if (!outboxes.has(run)) outboxes.set(run, new Outbox(run, (asked) => mirror(run, asked).catch(() => {})))
    return outboxes.get(run)
  }

  function tell(session, frame) {
    outboxOf(session).push(frame)
  }

  // A question of opencode's own: if somebody answers it at the server, that answer goes to opencode. What is not
  // plainly about that question is no answer.
  async function mirror(run, { id, source_id: permission }) {
    let said
    do {
      const look = () => request(server, "GET", `/api/v1/approvals/${encodeURIComponent(id)}?wait=${WAIT}`, undefined, WAIT)
      said = await patiently(look)
      if (said.run !== run || said.approval?.id !== id) return
    } while (said.approval.state === "pending")
    if (said.by?.kind !== "human" || !["approved", "claimed", "denied"].includes(said.approval.state)) return
    const { text, suggest } = said.reason ?? {}
    const message = [text || "No one allowed it.", suggest].filter(Boolean).join(" ")
    const body = said.approval.state === "denied" ? { reply: "reject", message } : { reply: "once" }
    const post = client._client.post.bind(client._client)
    await post({ url: "/permission/{id}/reply", path: { id: permission }, body, headers: { "content-type": "application/json" } })
  }

  function interrupted(session) {
    for (const stop of held.get(session) ?? []) stop.abort(new Error("the session was interrupted."))
    held.delete(session)
  }

  // The gate's answer, "" for an allow: then `args` are those to run.
  async function refusal(session, call, args) {
    const stop = new AbortController()
    held.set(session, (held.get(session) ?? new Set()).add(stop))
    try {
      const options = { ...server, run: runOf(session), signal: stop.signal, seconds: LONGEST }
      const said = await ask({ tool: call.tool, callId: call.wire, args: args ?? {} }, options)
      if (!said.allowed) return said.reason
      if (said.edited) replaceArgs(args, said.args)
      return ""
    } finally {
      held.get(session)?.delete(stop)
    }
  }

  // The event as it is told: with the call's own id.
  function renamed(session, event) {
    const told = event.properties ?? {}
    const part = told.part
    const where = told.tool ?? told.source
    if (part?.callID) {
      const call = calls.ofPart(runOf(session), part)
      call.over = ENDED.has(part.state?.status)
      return { ...event, properties: { ...told, part: { ...part, callID: call.wire } } }
    }
    const call = where?.callID && calls.latest(session, where.callID)
    if (!call) return event
    const name = told.tool ? "tool" : "source"
    return { ...event, properties: { ...told, [name]: { ...where, callID: call.wire } } }
  }

  return {
    event: async ({ event }) => {
      const told = event.properties ?? {}
      const part = told.part
      const session = told.sessionID ?? part?.sessionID
      if (!session || !(WANTED.test(event.type) || (event.type === "message.part.updated" && part?.type === "tool"))) return
      if (event.type === "session.created") parents.set(session, told.info?.parentID ?? "")
      else await introduced(session)
      if (event.type === "session.error" || event.type === "session.idle") interrupted(session)
      tell(session, renamed(session, event))
      if (event.type === "session.idle") await outboxOf(session).flushed()
    },

    "tool.execute.before": async (input, output) => {
      if (input.tool === "invalid") return // the model's mistake, told to it by opencode; nothing runs
      await introduced(input.sessionID)
      const [call, unseen] = calls.gate(runOf(input.sessionID), input)
      if (unseen) {
        const state = { status: "running", input: output.args }
        const part = { type: "tool", tool: input.tool, callID: call.wire, sessionID: input.sessionID, state }
        tell(input.sessionID, { type: "message.part.updated", properties: { sessionID: input.sessionID, part } })
      }
      await outboxOf(input.sessionID).flushed()
      const no = await refusal(input.sessionID, call, output.args)
      if (no) throw new Error(STOPPED + no)
    },
  }
}
