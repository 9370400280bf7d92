// New cards wait behind a button while the reader is busy, so that nothing moves under them.
import {findBoard, insertCard} from './card_lists.js';
import {shortenPushed} from '../runs/card_lines.js';
import {isLive, watchLater} from './connection.js';
import {hasQueue} from '../inbox/queue.js';

/** @type {Map<string, HTMLElement>} */
const heldCards = new Map();

/** @param {HTMLElement} list */
function isReaderBusy(list) {
  if (list.dataset.board === 'run') return false;
  if ('following' in list.dataset) return false;
  if (list.dataset.board === 'calls') return Boolean(list.firstElementChild);  // the newest come above what is read
  if (!hasQueue() && (scrollY > 80 || list.contains(document.activeElement))) return true;
  /** @type {NodeListOf<HTMLInputElement>} */
  const fields = list.querySelectorAll('input[name=reason], textarea');
  return [...fields].some(field => field.value !== field.defaultValue);
}

/** @param {HTMLElement} list */
function showButton(list) {
  let button = /** @type {HTMLButtonElement | null} */ (document.querySelector('button[data-held]'));
  if (!heldCards.size) { button?.remove(); return; }
  if (!button) {
    button = Object.assign(document.createElement('button'), {type: 'button', className: 'btn pri'});
    button.addEventListener('click', releaseHeldCards);
    list.before(button);
  }
  button.dataset.held = String(heldCards.size);
  button.textContent = heldCards.size === 1 ? '1 new card' : `${heldCards.size} new cards`;
}

/**
 * Hold a new card back if the reader is busy; return whether it is held.
 * @param {HTMLElement} list
 * @param {HTMLElement} card
 */
export function holdCard(list, card) {
  if (!heldCards.has(card.id) && (!isLive() || !isReaderBusy(list))) return false;
  heldCards.set(card.id, card);
  showButton(list);
  return true;
}

/**
 * Forget a held card that the list would no longer show.
 * @param {string} id
 */
export function forgetHeldCard(id) {
  const list = findBoard();
  if (heldCards.delete(id) && list) showButton(list);
}

/** Put the held cards into the list, and go to the first of them. */
export function releaseHeldCards() {
  const list = findBoard();
  if (!list || !heldCards.size) return;
  for (const card of [...heldCards.values()].reverse()) {  // of many, the newest are cards and the others lines
    if (document.getElementById(card.id)) continue;
    shortenPushed(card, null);
    insertCard(list, card);
    htmx.process(card);
  }
  const [first] = heldCards.keys();
  heldCards.clear();
  showButton(list);
  document.getElementById(first)?.focus();
}

watchLater(() => heldCards.values());
