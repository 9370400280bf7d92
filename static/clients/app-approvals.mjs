/**
 * The approvals that an AI SDK app asks for itself: `needsApproval` of its tools, and its own `toolApproval` (version 7).
 *
 * The gate is asked in addition to them: what either side wants to be approved is approved by both.
 *
 * @typedef {{ toolName: string, toolCallId: string, input: unknown, providerExecuted?: boolean }} ToolCall
 * @typedef {{ type: 'not-applicable' | 'approved' | 'denied' | 'user-approval', reason?: string }} ApprovalStatus
 * @typedef {{ toolCall: ToolCall, messages?: any[], tools?: Record<string, any>, toolsContext?: any, runtimeContext?: any }}
 *   ApprovalEvent
 */

/**
 * Return the status that version 7 would find without the gate (`resolveToolApproval` of `ai` 7.0.173).
 *
 * @param {ApprovalEvent} event
 * @param {any} appApproval  the app's own `toolApproval`: a function, or an object of statuses or functions by tool
 * @returns {Promise<ApprovalStatus>}
 */
export async function resolveAppApproval(event, appApproval) {
  if (typeof appApproval === 'function') return toStatus(await appApproval(event));
  const { toolCall, messages, toolsContext, runtimeContext } = event;
  const { toolName, toolCallId, input } = toolCall;
  const tool = getOwn(event.tools, toolName);
  const rule = getOwn(appApproval, toolName);
  const context = getOwn(toolsContext, toolName);
  if (typeof rule === 'function') {
    return toStatus(await rule(input, { toolCallId, messages, toolContext: context, runtimeContext }));
  }
  if (rule != null) return toStatus(rule);
  const isNeeded = await evaluateNeedsApproval(tool?.needsApproval, input, { toolCallId, messages, context });
  return { type: isNeeded ? 'user-approval' : 'not-applicable' };
}

/**
 * Return whether the app wants to ask its user; `needsApproval` is a tool's, a boolean or a function.
 *
 * @param {any} needsApproval
 * @param {unknown} input
 * @param {object} context
 * @returns {Promise<boolean>}
 */
export async function evaluateNeedsApproval(needsApproval, input, context) {
  return Boolean(typeof needsApproval === 'function' ? await needsApproval(input, context) : needsApproval);
}

/**
 * Return whether the last message approves exactly this call, so that the SDK is about to run it.
 * The SDK verifies approvals; this only finds out whether the user was asked already.
 *
 * @param {any[] | undefined} messages
 * @param {{ toolCallId: string, toolName?: string, input: unknown }} toolCall
 * @returns {boolean}
 */
export function isApprovedInChat(messages, { toolCallId, toolName, input }) {
  const lastMessage = messages?.at(-1);
  if (lastMessage?.role !== 'tool' || !Array.isArray(lastMessage.content)) return false;
  const parts = (messages ?? []).flatMap((message) => (Array.isArray(message?.content) ? message.content : []));
  const hasResult = lastMessage.content.some((/** @type {any} */ part) => part.type === 'tool-result' && part.toolCallId === toolCallId);
  const call = parts.findLast((part) => part.type === 'tool-call' && part.toolCallId === toolCallId);
  const isSameCall = call && (toolName === undefined || call.toolName === toolName) && isSameJson(call.input, input);
  const requestIds = parts.flatMap((part) => {
    return part.type === 'tool-approval-request' && part.toolCallId === toolCallId ? [part.approvalId] : [];
  });
  return !hasResult && isSameCall && lastMessage.content.some((/** @type {any} */ part) => {
    return part.type === 'tool-approval-response' && part.approved === true && requestIds.includes(part.approvalId);
  });
}

/** @param {unknown} left @param {unknown} right */
const isSameJson = (left, right) => JSON.stringify(left) === JSON.stringify(right);

/** @param {any} status @returns {ApprovalStatus} */
const toStatus = (status) => (typeof status === 'string' ? /** @type {any} */ ({ type: status }) : (status ?? { type: 'not-applicable' }));

/** @param {any} container @param {string} name */
const getOwn = (container, name) => (container != null && Object.hasOwn(container, name) ? container[name] : undefined);
