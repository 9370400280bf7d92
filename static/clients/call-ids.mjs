/**
 * Call ids on the wire: models and providers reuse ids in later turns, in parallel calls and in sub-agents.
 *
 * An id whose call has ended is asked about as a further attempt; next to an open call it is another call, `call_0#2`.
 * What was allowed once never counts for another call.
 *
 * @typedef {{ attempt: number, open: boolean }} WireCall
 */

const MAX_RUNS = 1_000;
/** @type {Map<string, Map<string, WireCall>>} the calls of each run, by their ids on the wire */
const callsByRun = new Map();

/**
 * Return the call with a wire id and attempt of its own, and mark it as open.
 *
 * @template {{ callId: string, attempt?: number }} T
 * @param {string} run  address and name of the run
 * @param {T} call
 * @returns {T & { attempt: number }}
 */
export function openCall(run, call) {
  const calls = getCalls(run);
  let callId = call.callId;
  for (let use = 2; calls.get(callId)?.open; use++) callId = `${call.callId}#${use}`;
  const attempt = Math.max(call.attempt ?? 1, (calls.get(callId)?.attempt ?? 0) + 1);
  calls.set(callId, { attempt, open: true });
  return { ...call, callId, attempt };
}

/** Return the newest attempt of a call, 1 if it is not known. @param {string} run @param {string} callId */
export function findAttempt(run, callId) {
  return getCalls(run).get(callId)?.attempt ?? 1;
}

/** Mark a call as ended. @param {string} run @param {{ callId: string, attempt?: number }} call */
export function closeCall(run, { callId, attempt }) {
  const wireCall = getCalls(run).get(callId);
  if (wireCall && wireCall.attempt === attempt) wireCall.open = false;
}

/** Mark all calls of a run as ended: its stream is over. @param {string} run */
export function closeCalls(run) {
  for (const wireCall of getCalls(run).values()) wireCall.open = false;
}

/** @param {string} run */
function getCalls(run) {
  const calls = callsByRun.get(run) ?? new Map();
  callsByRun.delete(run);
  callsByRun.set(run, calls); // the newest run comes last
  if (callsByRun.size > MAX_RUNS) callsByRun.delete(/** @type {string} */ (callsByRun.keys().next().value));
  return calls;
}
