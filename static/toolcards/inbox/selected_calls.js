// Which calls the reader has selected to answer them together, and what of each was shown when they did.

/** @type {Map<string, string>} card id -> ticket: approval, revision and digests */
const tickets = new Map();
/** @type {Set<() => void>} */
const listeners = new Set();

/** @type {(form: Element, name: string) => string} */
const readField = (form, name) => form.querySelector(`input[name=${name}]`)?.getAttribute('value') || '-';

/**
 * Return what is sent to answer this call with others, as `dashboard.inbox.groups` writes it; "" where it cannot be.
 * @param {Element | null} card
 */
export function findTicket(card) {
  const form = card?.querySelector('form.acts');
  const approval = form?.getAttribute('action')?.match(/([^/]+)\/vote$/)?.[1];
  if (!approval) return '';
  return [approval, ...['rev', 'args_sha256', 'view_sha256'].map(name => readField(form, name))].join(' ');
}

/** @type {(id: string) => string | undefined} */
export const getTicket = id => tickets.get(id);

/** Return the ids of the selected cards with their tickets. */
export const listTickets = () => [...tickets];

/**
 * Select a card, or with an empty ticket no longer.
 * @param {string} id
 * @param {string} ticket
 */
export function setTicket(id, ticket) {
  if ((tickets.get(id) || '') === ticket) return;
  if (ticket) tickets.set(id, ticket);
  else tickets.delete(id);
  for (const listener of listeners) listener();
}

/** Select nothing. */
export function clearTickets() {
  tickets.clear();
  for (const listener of listeners) listener();
}

/** @param {() => void} listener - called after each change of what is selected */
export const watchTickets = listener => { listeners.add(listener); };
