// Toolcards for opencode: shows every tool call, and no tool runs without the gate's decision.
// A plugin file (https://opencode.ai/docs/plugins); `toolcards connect opencode` writes it, and the modules that it
// imports into a folder where opencode does not look for plugins. Read from and tested with opencode-ai 1.18.33.
// Every failure on the way to a decision is a denial.
import { readFileSync } from "node:fs"
import { ask } from "../toolcards/gate-client.mjs"
import { request } from "../toolcards/gate-http.mjs"

const SETTINGS = {"url": "http://127.0.0.1:8000", "keyFile": ""} // toolcards-connect

const DENIAL_PREFIX = "Stopped by Toolcards: " // toolcards/adapters/opencode.py reads it
const POLL_SECONDS = 25
const MAX_BACKLOG = 5000 // frames kept while the server is unreachable, and calls that are remembered
const MAX_WAIT_SECONDS = 7 * 86_400 // after this an approval request is given up in any case
// What the adapter reads, and everything else about tools or permissions: the server counts unknown kinds.
const RELEVANT = /^(session\.(created|idle|error)|message\.part\.delta|permission\..*|.*\b(tool|shell)\b.*)$/

const env = globalThis.process?.env ?? {}
const url = env.TOOLCARDS_URL || SETTINGS.url
const key = env.TOOLCARDS_AGENT_KEY || readKey(SETTINGS.keyFile)
const server = { url, key }
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms))

// Return the key in the file; "" if it cannot be read, and then the server denies every call.
function readKey(path) {
  try {
    return path ? readFileSync(path, "utf8").trim() : ""
  } catch {
    return ""
  }
}

// ---------------------------------------------------------------- frames to the server

// The queue of one run: frames are sent in order, in batches, and again while the server is unreachable.
class Outbox {
  constructor(run, onApproval) {
    this.run = run
    this.onApproval = onApproval
    this.frames = []
    this.sending = null
  }

  push(frame) {
    this.frames.push(frame)
    if (this.frames.length > MAX_BACKLOG) this.frames.splice(0, this.frames.length - MAX_BACKLOG)
    this.sending ??= this.send()
  }

  async send() {
    await sleep(20)
    for (let tries = 0, batch = [], idempotencyKey = ""; this.frames.length; ) {
      if (!batch.length) [batch, idempotencyKey] = [this.frames.slice(0, 200), crypto.randomUUID()] // the same in every try
      try {
        await this.post(batch, idempotencyKey)
        tries = 0
      } catch (error) {
        // 409: the previous try is still being read. Any other refusal is final.
        if (error.status >= 400 && error.status < 500 && ![409, 429].includes(error.status)) tries = 0
        else {
          await sleep(Math.min(30_000, 500 * 2 ** tries++))
          continue
        }
      }
      this.frames = this.frames.filter((frame) => !batch.includes(frame))
      batch = []
    }
    this.sending = null
  }

  async post(batch, idempotencyKey) {
    const query = new URLSearchParams({ protocol: "opencode", run: this.run, agent: "opencode", answers: "poll" })
    const receipt = await request({ ...server, idempotencyKey }, "POST", `/api/v1/ingest?${query}`, batch)
    for (const approval of receipt.asked ?? []) this.onApproval(approval)
  }

  // Frames must arrive before the gate is asked; if they cannot, asking fails, too.
  async flush() {
    for (let waitedMs = 0; this.sending && waitedMs < 2000; waitedMs += 10) await sleep(10)
  }
}

// ---------------------------------------------------------------- one id for several calls

// Models reuse call ids: in later turns, in parallel, and in sub-agents, whose calls are in the same run. Calls are
// told apart by session and part; on the wire each has an id of its own: `call_0`, then `call_0#2`.
class CallRegistry {
  constructor() {
    this.calls = [] // { session, id, tool, part, wireId, isGated, hasEnded }
    this.wireIds = new Set() // run and id of every call
  }

  // Return the call that an event's part is about.
  findByPart(run, { sessionID: session, callID: id, tool, id: part }) {
    const candidates = this.calls.filter((call) => call.session === session && call.id === id)
    const known = candidates.find((call) => call.part === part)
    const begun = candidates.find((call) => !call.part && call.tool === tool && !call.hasEnded)
    const call = known ?? begun ?? this.add(run, session, id, tool)
    call.part ??= part
    return call
  }

  // Return the call that is about to run, and whether no event has shown it yet; each call is gated once.
  claim(run, { sessionID: session, callID: id, tool }) {
    const isWaiting = (call) => call.session === session && call.id === id && call.tool === tool && !call.isGated && !call.hasEnded
    const shown = this.calls.find(isWaiting)
    const call = shown ?? this.add(run, session, id, tool)
    call.isGated = true
    return [call, !shown]
  }

  // Return the newest call of that id, for events that name nothing else.
  findNewest(session, id) {
    return this.calls.findLast((call) => call.session === session && call.id === id)
  }

  add(run, session, id, tool) {
    let wireId = id
    for (let use = 2; this.wireIds.has(`${run} ${wireId}`); use++) wireId = `${id}#${use}`
    this.wireIds.add(`${run} ${wireId}`)
    const call = { session, id, tool, wireId, isGated: false, hasEnded: false }
    this.calls.push(call)
    if (this.calls.length > MAX_BACKLOG) this.calls.shift()
    return call
  }
}

const ENDED_STATUSES = new Set(["completed", "error"])

function replaceArgs(args, edited) {
  for (const name of Object.keys(args)) delete args[name]
  Object.assign(args, edited)
}

// A server that restarts while a person is asked still has the approval.
async function retry(work) {
  for (let tries = 0; ; tries++) {
    try {
      return await work()
    } catch (error) {
      if (error.status || tries >= 5) throw error
      await sleep(500 * 2 ** tries)
    }
  }
}

// ---------------------------------------------------------------- the plugin

export const Toolcards = async ({ client }) => {
  const parents = new Map() // session -> its parent, "" for none
  const lookups = new Map() // session -> the promise that its parent is known
  const outboxes = new Map() // run -> Outbox
  const openRequests = new Map() // session -> the AbortControllers of its open approval requests
  const calls = new CallRegistry()

  // A session that began before this plugin is looked up, once.
  function ensureKnown(session) {
    if (!parents.has(session) && !lookups.has(session)) lookups.set(session, lookUp(session))
    return lookups.get(session)
  }

  async function lookUp(session) {
    const { data } = await client.session.get({ path: { id: session } }).catch(() => ({}))
    parents.set(session, data?.parentID ?? "")
    if (data?.parentID) await ensureKnown(data.parentID)
    if (data) report(session, { type: "session.created", properties: { sessionID: session, info: data } })
  }

  function findRun(session) {
    for (let steps = 0; parents.get(session) && steps < 32; steps++) session = parents.get(session)
    return session
  }

  function getOutbox(session) {
    const run = findRun(session)
    if (!outboxes.has(run)) outboxes.set(run, new Outbox(run, (approval) => relayAnswer(run, approval).catch(() => {})))
    return outboxes.get(run)
  }

  function report(session, frame) {
    getOutbox(session).push(frame)
  }

  // An approval of opencode's own: if a person answers it at the server, that answer goes to opencode. What is not
  // clearly about that approval is ignored.
  async function relayAnswer(run, { id, source_id: permission }) {
    let answer
    do {
      const path = `/api/v1/approvals/${encodeURIComponent(id)}?wait=${POLL_SECONDS}`
      answer = await retry(() => request(server, "GET", path, undefined, POLL_SECONDS))
      if (answer.run !== run || answer.approval?.id !== id) return
    } while (answer.approval.state === "pending")
    if (answer.by?.kind !== "human" || !["approved", "claimed", "denied"].includes(answer.approval.state)) return
    const { text, suggest } = answer.reason ?? {}
    const message = [text || "No one approved this call.", suggest].filter(Boolean).join(" ")
    const body = answer.approval.state === "denied" ? { reply: "reject", message } : { reply: "once" }
    const post = client._client.post.bind(client._client)
    await post({ url: "/permission/{id}/reply", path: { id: permission }, body, headers: { "content-type": "application/json" } })
  }

  function abortRequests(session) {
    for (const controller of openRequests.get(session) ?? []) controller.abort(new Error("the session was interrupted."))
    openRequests.delete(session)
  }

  // Return the reason of the gate's denial, "" for an allow: then `args` are those to run.
  async function findDenial(session, call, args) {
    const controller = new AbortController()
    openRequests.set(session, (openRequests.get(session) ?? new Set()).add(controller))
    try {
      const options = { ...server, run: findRun(session), signal: controller.signal, seconds: MAX_WAIT_SECONDS }
      const decision = await ask({ tool: call.tool, callId: call.wireId, args: args ?? {} }, options)
      if (!decision.allowed) return decision.reason
      if (decision.edited) replaceArgs(args, decision.args)
      return ""
    } finally {
      openRequests.get(session)?.delete(controller)
    }
  }

  // Return the event with the call's id on the wire.
  function renameCall(session, event) {
    const properties = event.properties ?? {}
    const part = properties.part
    const source = properties.tool ?? properties.source
    if (part?.callID) {
      const call = calls.findByPart(findRun(session), part)
      call.hasEnded = ENDED_STATUSES.has(part.state?.status)
      return { ...event, properties: { ...properties, part: { ...part, callID: call.wireId } } }
    }
    const call = source?.callID && calls.findNewest(session, source.callID)
    if (!call) return event
    const name = properties.tool ? "tool" : "source"
    return { ...event, properties: { ...properties, [name]: { ...source, callID: call.wireId } } }
  }

  return {
    event: async ({ event }) => {
      const properties = event.properties ?? {}
      const part = properties.part
      const session = properties.sessionID ?? part?.sessionID
      if (!session || !(RELEVANT.test(event.type) || (event.type === "message.part.updated" && part?.type === "tool"))) return
      if (event.type === "session.created") parents.set(session, properties.info?.parentID ?? "")
      else await ensureKnown(session)
      if (event.type === "session.error" || event.type === "session.idle") abortRequests(session)
      report(session, renameCall(session, event))
      if (event.type === "session.idle") await getOutbox(session).flush()
    },

    "tool.execute.before": async (input, output) => {
      if (input.tool === "invalid") return // the model's mistake, which opencode reports to it; nothing runs
      await ensureKnown(input.sessionID)
      const [call, isNew] = calls.claim(findRun(input.sessionID), input)
      if (isNew) {
        const state = { status: "running", input: output.args }
        const part = { type: "tool", tool: input.tool, callID: call.wireId, sessionID: input.sessionID, state }
        report(input.sessionID, { type: "message.part.updated", properties: { sessionID: input.sessionID, part } })
      }
      await getOutbox(input.sessionID).flush()
      const denial = await findDenial(input.sessionID, call, output.args)
      if (denial) throw new Error(DENIAL_PREFIX + denial)
    },
  }
}
