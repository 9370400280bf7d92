// Now: the newest calls that wait have three slots, one line each. No line moves; a free slot takes the next call.
// A phone has as many slots as calls waited when it opened the page, at least one: empty ones would fill its screen.
import {armCard} from './approve_guard.js';
import {flash} from '../live/card_lists.js';
import {isOutdated, rankCard} from '../live/card_order.js';
import {wasLive, watchLater} from '../live/connection.js';

const SLOTS = 3;
const PHONE = matchMedia('(width < 640px)');  // as in now.css

/** @type {Map<string, HTMLElement>} cards without a slot */
const spareCards = new Map();

/** @param {Element | null | undefined} list */
export const hasSlots = list => /** @type {HTMLElement} */ (list)?.dataset.board === 'now';

/** @param {HTMLElement} list */
const countSlots = list => (PHONE.matches ? Number(list.dataset.slots) : SLOTS);

/** @param {HTMLElement} card */
function makePlace(card) {
  const place = document.createElement('li');
  place.append(card);
  return place;
}

/** @param {HTMLElement} card */
function showCard(card) {
  armCard(card);
  if (wasLive()) flash(card);
  return card;
}

/**
 * Keep the newest version of a card without a slot, as long as the call waits.
 * @param {HTMLElement} card
 */
function keepSpare(card) {
  const present = spareCards.get(card.id);
  if (present && isOutdated(present.dataset, card.dataset, false)) return;
  if (card.hasAttribute('data-waiting')) spareCards.set(card.id, card);
  else spareCards.delete(card.id);
}

/**
 * Return the card without a slot that comes first in the list's order, if there is one.
 * @param {string} order
 * @returns {HTMLElement | undefined}
 */
function findFirstSpare(order) {
  const cards = [...spareCards.values()];
  return cards.sort((one, other) => rankCard(one.dataset, order) - rankCard(other.dataset, order))[0];
}

/**
 * Give a new card a free slot, else keep it until there is one; return the card if it is on the page.
 * @param {HTMLElement} list
 * @param {HTMLElement} card
 */
export function fillSlot(list, card) {
  const free = list.querySelector(':scope > .free');
  if (!free && list.children.length >= countSlots(list)) {
    keepSpare(card);
    return null;
  }
  spareCards.delete(card.id);
  if (!card.hasAttribute('data-waiting')) return null;
  if (free) free.replaceWith(makePlace(card));
  else list.append(makePlace(card));
  return showCard(card);
}

/**
 * Take in what became of a card that has no slot.
 * @param {HTMLElement} card
 */
export function renewSpare(card) {
  if (spareCards.has(card.id)) keepSpare(card);
}

/**
 * Forget a card without a slot that is no more.
 * @param {string} id
 */
export const forgetSpare = id => { spareCards.delete(id); };

/**
 * Let the newest card without a slot take the place of one that waits no longer; without one, the slot is free.
 * @param {Element} place
 */
export function passSlot(place) {
  const card = findFirstSpare(place.parentElement.dataset.order);
  if (!card) {
    place.replaceChildren();
    place.className = 'free';
    return;
  }
  spareCards.delete(card.id);
  place.replaceWith(makePlace(card));
  htmx.process(card);
  showCard(card);
}

/**
 * Show the whole card, and the others as lines.
 * @param {Element | null | undefined} card
 */
export function openCard(card) {
  const place = card?.parentElement;
  if (!place || !hasSlots(place.parentElement)) return;
  for (const other of place.parentElement.children) other.classList.toggle('opened', other === place);
}

/**
 * Return whether the line does not say all that Approve would allow, or asks more than a press.
 * @param {Element} card
 */
function needsReading(card) {
  const summary = card.querySelector('.card-head .sum');
  const isCut = Boolean(summary?.textContent) && (
    !summary.clientWidth || summary.scrollWidth > summary.clientWidth || summary.scrollHeight > summary.clientHeight + 1
  );
  return isCut || !card.hasAttribute('data-brief') || card.getAttribute('data-risk') === 'high'
    || Boolean(card.querySelector('form.acts fieldset'));
}

/** @param {MouseEvent} event */
function handleClick(event) {
  const target = /** @type {Element} */ (event.target);
  const card = target.closest('#board > li > article.card');
  const place = card?.parentElement;
  if (!card || place.classList.contains('departed')) return;
  const button = target.closest('button[value=approve]');
  if (button && !place.classList.contains('opened') && needsReading(card)) {
    event.preventDefault();
    event.stopImmediatePropagation();
    openCard(card);
  } else if (target.closest('.card-head') && !target.closest('a')) {
    if (place.classList.contains('opened')) place.classList.remove('opened');
    else openCard(card);
  }
}

/**
 * Say how many calls wait that have no slot.
 * @param {HTMLElement} list
 * @param {HTMLElement} badge
 */
function showMore(list, badge) {
  const link = document.getElementById('all-waiting');
  const more = Number(badge.dataset.waitingCount) - list.querySelectorAll('.card[data-waiting]').length;
  const text = more > 0 ? `${more} more waiting` : 'All approvals';
  if (link.textContent.trim() !== text) link.textContent = text;
}

/**
 * Give up the empty slots, which moves what is below them: only while no one looks.
 * @param {HTMLElement} list
 */
function dropEmptySlots(list) {
  if (!document.hidden) return;
  for (const free of list.querySelectorAll(':scope > .free')) free.remove();
  list.dataset.slots = String(Math.max(1, list.children.length));
}

/** Let the lines open, on the page that has them. Must run before the guard of Approve. */
export function startSlots() {
  const list = document.getElementById('board');
  const badge = document.getElementById('waiting-count');
  if (!hasSlots(list) || !badge) return;
  document.addEventListener('click', handleClick, true);
  document.addEventListener('visibilitychange', () => dropEmptySlots(list));
  const observer = new MutationObserver(() => showMore(list, badge));
  observer.observe(list, {subtree: true, childList: true, attributeFilter: ['data-waiting']});
  observer.observe(badge, {attributeFilter: ['data-waiting-count']});
}

watchLater(() => spareCards.values());
