// Where a card belongs in its list, and which of two versions is newer. Pure functions on data attributes.

/**
 * Return a number that says where a card belongs; "-pk" puts the newest first.
 * @param {DOMStringMap} data - the card's data attributes
 * @param {string} order - "ordinal", "requested", "queue" or "-pk"
 */
export function rankCard(data, order) {
  return order.startsWith('-') ? -Number(data[order.slice(1)]) : Number(data[order]);
}

/**
 * Return whether a pushed version says nothing new.
 * @param {DOMStringMap} present - the data attributes of the version on the page
 * @param {DOMStringMap} pushed - those of the version that came
 * @param {boolean} hasNotice - whether the pushed version carries a notice for its reader
 */
export function isOutdated(present, pushed, hasNotice) {
  const [shown, received] = [Number(present.rev), Number(pushed.rev)];
  if (received !== shown) return received < shown;
  if ('line' in present && !('line' in pushed)) return false;  // a card says more than its line
  if (Number(pushed.seq) > Number(present.seq)) return false;  // the agent left or came back; no vote depends on it
  return !hasNotice;
}
