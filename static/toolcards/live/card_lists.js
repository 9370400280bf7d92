// A list of cards: putting a card where it belongs, and taking cards off.
import {armCard} from '../inbox/approve_guard.js';
import {rankCard} from './card_order.js';
import {wasLive} from './connection.js';
import {trimBoard} from './trimming.js';

/** @type {WeakSet<Element>} cards whose next flash has the other name */
const flashedOnce = new WeakSet();

/** Return the page's list of cards. */
export const findBoard = () => document.getElementById('board');

/**
 * Return what takes a place in the list for this card: its list item, or the card itself.
 * @param {Element} card
 * @returns {Element}
 */
export const findPlace = card => card.closest('#board > li') || card;

/**
 * Return what has a rank at this place: a card, or the heading of a group.
 * @param {Element} place
 * @returns {HTMLElement | null}
 */
function findRanked(place) {
  const selector = '.group, .wrote, article.card:not([data-removed])';
  return /** @type {HTMLElement} */ (place.matches(selector) ? place : place.querySelector(selector));
}

/**
 * Show for a moment that a card has changed. Another name restarts the animation; no layout is read.
 * @param {Element} card
 */
export function flash(card) {
  const isAgain = flashedOnce.has(card);
  if (isAgain) flashedOnce.delete(card);
  else flashedOnce.add(card);
  card.classList.toggle('fresh', !isAgain);
  card.classList.toggle('fresh-again', isAgain);
}

/**
 * Put a new card into the list, in the list's order.
 * @param {HTMLElement} list
 * @param {HTMLElement} card
 */
export function insertCard(list, card) {
  const order = list.dataset.order || 'ordinal';
  const rank = rankCard(card.dataset, order);
  const next = [...list.children].find(place => {
    if (place.classList.contains('settled')) return true;  // decided calls stay below what waits
    const other = findRanked(place);
    return other && rankCard(other.dataset, order) > rank;
  });
  const isList = ['OL', 'UL'].includes(list.tagName);
  const place = isList ? document.createElement('li') : card;
  if (isList) place.append(card);
  list.insertBefore(place, next || null);
  trimBoard(list);
  armCard(card);
  if (wasLive()) flash(card);
  return card;
}

/**
 * Take the card off the page.
 * @param {Element | null} card
 */
export function removeCard(card) {
  if (card) findPlace(card).remove();
}
