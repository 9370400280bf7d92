// A list of cards: putting a card where it belongs, and taking cards off.
import {armCard} from './approve_guard.js';
import {rankCard} from './card_order.js';
import {wasLive} from './connection.js';

const MOST = 200;  // cards on a page
const TEXT_LINES = 2;  // a block of text takes the place of two cards

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

/**
 * Return the oldest cards beyond the list's limit.
 * @param {HTMLElement} list
 * @param {boolean} isNewestLast
 */
function listSurplus(list, isNewestLast) {
  const most = Number(list.dataset.most) || MOST;
  const cards = [...list.querySelectorAll('article.card, .wrote')];
  if (isNewestLast) cards.reverse();
  let taken = 0;
  const from = cards.findIndex(card => (taken += card.matches('.wrote') ? TEXT_LINES : 1) > most);
  return from < 0 ? [] : cards.slice(from).filter(card => card.matches('.card'));
}

/**
 * Take off the oldest cards beyond the list's limit, except those that wait or that the reader is in, and the text
 * that stood before them.
 * @param {HTMLElement} list
 */
function trimBoard(list) {
  const isNewestLast = !(list.dataset.order || '').startsWith('-');
  const surplus = listSurplus(list, isNewestLast);
  for (const card of surplus) {
    if (!card.contains(document.activeElement) && !card.hasAttribute('data-waiting')) removeCard(card);
  }
  if (!surplus.length || !isNewestLast || list.dataset.board !== 'run') return;
  while (list.firstElementChild?.querySelector(':scope > .wrote')) list.firstElementChild.remove();
  linkOlderCalls(list);
}

/**
 * Let "Older calls" lead to what is no longer on the page.
 * @param {HTMLElement} list
 */
function linkOlderCalls(list) {
  const oldest = /** @type {HTMLElement | null} */ (list.querySelector('article.card'));
  if (!oldest?.dataset.ordinal) return;
  let link = /** @type {HTMLAnchorElement | null} */ (document.getElementById('older'));
  if (!link) {
    const line = document.createElement('p');
    line.className = 'pager';
    link = Object.assign(document.createElement('a'), {id: 'older', textContent: 'Older calls'});
    line.append(link);
    list.before(line);
  }
  const page = /** @type {HTMLAnchorElement} */ (document.querySelector('a[data-page]'));
  const url = new URL(page.href);  // it names the run's source, which this page's address may not
  url.searchParams.set('before', oldest.dataset.ordinal);
  link.href = url.pathname + url.search;
}
