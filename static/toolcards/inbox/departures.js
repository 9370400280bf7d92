// Calls that wait no longer become one line in the lists of waiting calls. Then they leave the first page, and in the
// inbox they go below what waits, where they stay until the reader leaves the page.
// Nothing that the reader looks at moves: a place on screen keeps its height until it is out of sight.
import {formatMinute} from '../live/durations.js';
import {isPointed} from '../page/pointer.js';
import {drawQueue, findNextWaiting, findSelectedCard, hasQueue, isQueueBusy, selectCard} from './queue.js';
import {hasSlots, passSlot} from './waiting_slots.js';
import {findHeight, watchSight} from '../live/visibility.js';

const SHOWN_FOR = 8_000;  // milliseconds in which the line stays, at least
const UNDO_FOR = 30_000;  // milliseconds in which a call stays open whose approval can be undone
const BOARDS = ['now', 'approvals'];
const SVG = 'http://www.w3.org/2000/svg';

/** @type {Map<Element, number>} places of calls that wait no longer -> since when */
const departedSince = new Map();
/** @type {HTMLElement} */
let list;

/** @type {WeakMap<Element, number>} form of an undo -> since when it is there */
const undoableSince = new WeakMap();

/**
 * Return whether the reader may be about to undo an approval: the agent can take long to fetch it.
 * @param {Element} place
 */
function isUndoNew(place) {
  const form = place.querySelector('form.undo');
  if (form && !undoableSince.has(form)) undoableSince.set(form, performance.now());
  return Boolean(form) && performance.now() - undoableSince.get(form) < UNDO_FOR;
}

/** @param {Element} place */
const isBusy = place => isPointed(place) || place.contains(document.activeElement)
  || isUndoNew(place) || Boolean(place.querySelector('.kept-text'));

/**
 * Show the call as one line, with the time, in a place as high as before.
 * @param {Element} place
 */
function foldPlace(place) {
  departedSince.set(place, performance.now());
  place.classList.add('departed');
  const time = Object.assign(document.createElement('span'), {className: 'departed-at muted'});
  time.textContent = formatMinute(new Date());
  place.append(time);
  place.classList.remove('opened');
  if (hasQueue() || hasSlots(list)) return;  // another's height moves nothing there
  const keeper = document.createElementNS(SVG, 'svg');
  keeper.setAttribute('class', 'keeper');
  keeper.setAttribute('height', String(findHeight(place)));
  keeper.setAttribute('aria-hidden', 'true');
  place.append(keeper);
}

/** @param {Element} place */
function unfoldPlace(place) {
  departedSince.delete(place);
  place.classList.remove('departed', 'settled');
  for (const part of place.querySelectorAll(':scope > .departed-at, :scope > .keeper')) part.remove();
}

/**
 * Put a line below everything that waits.
 * @param {Element} place
 */
function moveToEnd(place) {
  for (const keeper of place.querySelectorAll(':scope > .keeper')) keeper.remove();
  place.classList.add('settled');
  list.append(place);
}

/** Fold the calls that wait no longer, and open again those that do. */
function foldDeparted() {
  for (const place of list.children) {
    const card = place.querySelector(':scope > article.card');
    if (!card) continue;
    const isFolded = place.classList.contains('departed');
    if (card.hasAttribute('data-waiting') === !isFolded) continue;
    if (isFolded) unfoldPlace(place);
    else if (!isBusy(place)) foldPlace(place);
  }
}

/**
 * Put the call that the reader has just answered below what waits.
 * @param {Element} card
 */
export function settleCard(card) {
  const place = card.parentElement;
  if (!place.classList.contains('departed')) foldPlace(place);
  departedSince.delete(place);
  moveToEnd(place);
  drawQueue();
}

/** In the inbox: show what waits instead of a call that was decided elsewhere, once the reader is not there. */
function leaveDeparted() {
  const card = findSelectedCard();
  if (!card || card.hasAttribute('data-waiting') || isBusy(card.parentElement)) return;
  if (performance.now() - (departedSince.get(card.parentElement) ?? 0) < SHOWN_FOR) return;
  selectCard(findNextWaiting(card));
}

/** Let the lines go whose going moves nothing that the reader looks at. */
function removeDeparted() {
  foldDeparted();
  if (hasQueue()) {
    leaveDeparted();
    if (isQueueBusy()) return;
  }
  const isAnyWaiting = Boolean(list.querySelector(':scope > li > [data-waiting]'));
  for (const [place, since] of departedSince) {
    if (!place.isConnected) { departedSince.delete(place); continue; }
    if (performance.now() - since < SHOWN_FOR || isBusy(place)) continue;
    if (hasQueue() && isAnyWaiting && place.contains(findSelectedCard())) continue;
    departedSince.delete(place);
    if (hasSlots(list)) passSlot(place);
    else moveToEnd(place);
  }
}

/** Let departed calls go, on the pages that list what waits. */
export function startDepartures() {
  list = document.getElementById('board');
  if (!BOARDS.includes(list?.dataset.board)) return;
  watchSight(list);
  new MutationObserver(foldDeparted).observe(list, {subtree: true, childList: true, attributeFilter: ['data-waiting']});
  setInterval(removeDeparted, 1000);
}
