// After the reader's own vote or undo: say what happened, and go to the next call that waits.
import {say} from '../page/announce.js';
import {settleCard} from './departures.js';
import {findNextWaiting, hasQueue, selectCard} from './queue.js';
import {showDecision, showNote} from '../page/toast.js';

const EXPIRY = 30_000;  // milliseconds in which a change counts as the answer to a vote
/** @type {Record<string, string>} */
const WORDS = {'output-denied': 'Denied'};

/** @type {Map<string, number>} card id -> when the reader voted on it */
const votedAt = new Map();
/** @type {Map<string, number>} card id -> when the reader pressed Undo on it */
const undoneAt = new Map();

/**
 * Return whether the reader has pressed the button of this card recently.
 * @param {Map<string, number>} pressedAt
 * @param {string} id
 */
const isRecent = (pressedAt, id) => performance.now() - (pressedAt.get(id) ?? -Infinity) < EXPIRY;

/**
 * Return whether the reader has voted on this card.
 * @param {string} id
 */
export const hasVoted = id => isRecent(votedAt, id);

/** @param {SubmitEvent} event */
function rememberVote(event) {
  const card = /** @type {Element} */ (event.target).closest?.('article.card');
  const button = /** @type {HTMLButtonElement | null} */ (event.submitter);
  if (card && ['decision', 'always', 'always_deny'].includes(button?.name)) votedAt.set(card.id, performance.now());
  if (card && /** @type {Element} */ (event.target).matches('form.undo')) undoneAt.set(card.id, performance.now());
}

/**
 * Say whether the approval was undone in time, once the card shows that. It shows neither after an answer without a
 * card, such as the sign-in page, nor when another change of the card comes first.
 * @param {HTMLElement} card
 */
function sayUndone(card) {
  const refusal = card.querySelector('[data-told]')?.textContent.trim();
  if (!refusal && card.dataset.state !== 'output-denied') return;
  undoneAt.delete(card.id);
  if (refusal) showNote(refusal);
  else showDecision(card, 'Undone, denied');
  say(refusal || 'Undone. The call is denied.');
}

/** @param {CustomEvent} event */
function handleSwap(event) {
  const source = /** @type {Element} */ (event.target).closest?.('article.card')
    || event.detail?.ctx?.sourceElement?.closest?.('article.card');
  const card = source && document.getElementById(source.id);
  if (card && isRecent(undoneAt, card.id)) { sayUndone(card); return; }
  if (!card || !hasVoted(card.id)) return;
  const notice = card.querySelector('[data-told]');
  if (!notice && card.hasAttribute('data-waiting')) return;
  votedAt.delete(card.id);
  if (notice) { say(notice.textContent); card.focus(); return; }
  /** @type {HTMLElement[]} */
  const waiting = [...document.querySelectorAll('article.card[data-waiting]')]
    .filter(other => other !== card).map(other => /** @type {HTMLElement} */ (other));
  const decision = WORDS[card.dataset.state] || 'Approved';
  const word = card.querySelector('[data-lasting]') ? `${decision}, and won’t ask again:` : decision;
  const rest = waiting.length ? `${waiting.length} left on this page.` : 'Nothing else is waiting here.';
  say(`${decision}. ${rest}`);
  showDecision(card, word);
  const next = hasQueue() ? findNextWaiting(card) : waiting[0];
  if (hasQueue() && next) settleCard(card);
  selectCard(next);
  (next || document.getElementById('main')).focus({preventScroll: hasQueue() || !next});
}

/** Follow the reader's votes. */
export function startOwnVotes() {
  document.addEventListener('submit', rememberVote, true);
  document.addEventListener('htmx:after:swap', handleSwap);
}
