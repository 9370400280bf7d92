// After the reader's own vote or undo: say what happened, and go to the next call that waits.
import {say} from './announce.js';
import {settleCard} from './departures.js';
import {findNextWaiting, hasQueue, selectCard} from './queue.js';
import {showDecision, showNote} from './toast.js';

const EXPIRY = 30_000;  // milliseconds in which a change counts as the answer to a vote
/** @type {Record<string, string>} */
const WORDS = {'output-denied': 'Denied'};

/** @type {Map<string, number>} card id -> when the reader voted on it */
const votedAt = new Map();
/** @type {Set<string>} ids of cards whose approval the reader is undoing */
const undone = new Set();

/**
 * Return whether the reader has voted on this card.
 * @param {string} id
 */
export const hasVoted = id => performance.now() - (votedAt.get(id) ?? -Infinity) < EXPIRY;

/** @param {SubmitEvent} event */
function rememberVote(event) {
  const card = /** @type {Element} */ (event.target).closest?.('article.card');
  const button = /** @type {HTMLButtonElement | null} */ (event.submitter);
  if (card && button?.name === 'decision') votedAt.set(card.id, performance.now());
  if (card && /** @type {Element} */ (event.target).matches('form.undo')) undone.add(card.id);
}

/**
 * Say whether the approval was undone in time.
 * @param {HTMLElement} card
 */
function sayUndone(card) {
  const refusal = card.querySelector('[data-told]')?.textContent.trim();
  undone.delete(card.id);
  if (refusal) showNote(refusal);
  else showDecision(card, 'Undone, denied');
  say(refusal || 'Undone. The call is denied.');
}

/** @param {CustomEvent} event */
function handleSwap(event) {
  const source = /** @type {Element} */ (event.target).closest?.('article.card')
    || event.detail?.ctx?.sourceElement?.closest?.('article.card');
  const card = source && document.getElementById(source.id);
  if (card && undone.has(card.id)) { sayUndone(card); return; }
  if (!card || !hasVoted(card.id)) return;
  const notice = card.querySelector('[data-told]');
  if (!notice && card.hasAttribute('data-waiting')) return;
  votedAt.delete(card.id);
  if (notice) { say(notice.textContent); card.focus(); return; }
  /** @type {HTMLElement[]} */
  const waiting = [...document.querySelectorAll('article.card[data-waiting]')]
    .filter(other => other !== card).map(other => /** @type {HTMLElement} */ (other));
  const word = WORDS[card.dataset.state] || 'Approved';
  say(waiting.length ? `${word}. ${waiting.length} left on this page.` : `${word}. Nothing else is waiting here.`);
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
