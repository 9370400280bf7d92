// The inbox: what waits as a list of lines, and one call at a time next to it, or on narrow screens instead of it.
// The cards stand side by side in a box that shows one of them, so every card stays reachable for keys and readers.
// Without scripts all cards stand below each other.
import {armCard} from './approve_guard.js';
import {tick} from '../live/clock.js';
import {isPointed} from '../page/pointer.js';
import {makeLine, updateBox, updateLine, watchBoxes} from './queue_lines.js';
import {watchTickets} from './selected_calls.js';

const WATCHED = {
  childList: true, subtree: true, attributes: true, attributeFilter: ['data-state', 'data-rev', 'data-waiting'],
};
const WIDE = matchMedia('(width >= 1100px), (width >= 768px) and (height >= 560px)');  // as in inbox.css
const SETTLED = 120;  // milliseconds after which a swipe is over

/** @type {HTMLElement | null} the box of cards */
let list = null;
/** @type {HTMLElement | null} the list of lines */
let queue = null;
/** @type {Map<string, HTMLElement>} */
const lines = new Map();
/** @type {Map<string, HTMLElement>} */
const headings = new Map();
let selectedId = '';
let drawTimer = 0;
let swipeTimer = 0;  // runs while the reader swipes
let placedAt = 0;  // where the box was last put
let isTouched = false;  // a finger is on the box

/** Return whether the page shows one waiting call at a time. */
export const hasQueue = () => Boolean(queue);

/** Return whether the list stands next to the calls, where all selected ones are shown. */
export const hasBoth = () => Boolean(queue && WIDE.matches);

/** @returns {HTMLElement[]} */
const findCards = () => [...list.querySelectorAll(':scope > li > article.card:not([data-removed])')]
  .map(card => /** @type {HTMLElement} */ (card));

/** @param {Element} card */
const isWaiting = card => card.hasAttribute('data-waiting');

/** @returns {HTMLElement | null} */
export const findSelectedCard = () => (queue && selectedId ? document.getElementById(selectedId) : null);

/** Return the cards that the keys step through: those that wait, and the one that is shown. */
export const listSteps = () => findCards().filter(card => isWaiting(card) || card.id === selectedId);

/** Return whether the pointer or the focus is in the list of lines. */
export const isQueueBusy = () => Boolean(isPointed(queue) || queue?.contains(document.activeElement));

/**
 * Return the call to show after this one: the next that waits, else the first.
 * @param {HTMLElement} card
 */
export function findNextWaiting(card) {
  const cards = findCards();
  const waiting = cards.filter(other => other !== card && isWaiting(other));
  const after = cards.slice(cards.indexOf(card) + 1);
  return after.find(other => waiting.includes(other)) || waiting[0];
}

// ---------------------------------------------------------------- the box of cards

/** Return the places in the box, as they stand side by side. */
const listPlaces = () => [...list.children].filter(place => !place.matches('.group, .departed:not(.selected)'));

/** Return whether the reader has moved the box, also if the browser has not reported it yet (a busy computer). */
const isMoved = () => Math.abs(list.scrollLeft - Math.min(placedAt, list.scrollWidth - list.clientWidth)) > 1;

/** Keep the selected card in the box when others come or go, unless the reader is on the way to another one. */
function keepSelected() {
  if (!swipeTimer && isMoved()) noteSwipe();
  scrollToSelected();
}

/** Show the selected card, unless the reader is on the way to another one. */
function scrollToSelected() {
  if (swipeTimer) return;
  const at = listPlaces().findIndex(place => place.firstElementChild?.id === selectedId);
  if (at >= 0) list.scrollLeft = at * list.clientWidth;
  placedAt = list.scrollLeft;
}

function endSwipe() {
  clearTimeout(swipeTimer);
  swipeTimer = 0;
}

function markSelected() {
  const cards = findCards();
  for (const card of cards) card.parentElement.classList.toggle('selected', card.id === selectedId);
  for (const [id, line] of lines) {
    if (id === selectedId) line.lastElementChild.setAttribute('aria-current', 'true');
    else line.lastElementChild.removeAttribute('aria-current');
  }
  const waiting = cards.filter(isWaiting);
  const at = waiting.findIndex(card => card.id === selectedId);
  const position = document.getElementById('position');
  if (position) position.textContent = at < 0 ? `${waiting.length} waiting` : `${at + 1} of ${waiting.length}`;
}

/**
 * Show this card, because the reader went there or answered the one before.
 * @param {HTMLElement | null | undefined} card
 */
export function selectCard(card) {
  if (!queue || !card || card.parentElement?.parentElement !== list) return;
  closePanels();
  keepInBox(card);
  lines.get(card.id)?.scrollIntoView({block: 'nearest'});
}

/**
 * Show this card in the box, which may have another shape now.
 * @param {HTMLElement | null} card
 */
export function keepInBox(card) {
  if (!queue || !card) return;
  if (card.id !== selectedId && isWaiting(card)) armCard(card);
  selectedId = card.id;
  markSelected();
  endSwipe();
  scrollToSelected();
}

/** Note that the box moves by the reader's hand, until it has rested. */
function noteSwipe() {
  if (list.scrollLeft === placedAt) return;
  clearTimeout(swipeTimer);
  swipeTimer = setTimeout(followSwipe, SETTLED);
}

/** After the reader has swiped: the card in the box is the selected one. A finger that rests is still on its way. */
function followSwipe() {
  endSwipe();
  if (isTouched) { swipeTimer = setTimeout(followSwipe, SETTLED); return; }
  const card = listPlaces()[Math.round(list.scrollLeft / (list.clientWidth || 1))]?.firstElementChild;
  if (!card?.matches('article.card') || card.id === selectedId) return;
  selectedId = card.id;
  markSelected();
}

/** @param {FocusEvent} event */
function followFocus(event) {
  const card = /** @type {Element} */ (event.target).closest('article.card');
  if (!card) return;
  closePanels();
  if (card.id === selectedId) return;
  selectedId = card.id;
  markSelected();
  endSwipe();
  scrollToSelected();
}

// ---------------------------------------------------------------- the list of lines

/** @param {string} title */
function findHeading(title) {
  if (!headings.has(title)) {
    const heading = Object.assign(document.createElement('li'), {className: 'group'});
    heading.append(
      Object.assign(document.createElement('b'), {textContent: title}), document.createElement('span'),
    );
    headings.set(title, heading);
  }
  return headings.get(title);
}

/** @param {HTMLElement} card */
function findLine(card) {
  if (!lines.has(card.id)) lines.set(card.id, makeLine(card));
  const line = lines.get(card.id);
  const isWritten = updateLine(line, card);
  updateBox(line);
  return {line, isWritten};
}

/** Return the headings and lines in their order, those of answered calls apart, and whether a line has new text. */
function buildOrder() {
  /** @type {HTMLElement[]} */
  const order = [];
  /** @type {HTMLElement[]} */
  const answered = [];
  let hasNews = false;
  /** @type {HTMLElement | null} */
  let heading = null;
  let title = '';
  let count = 0;
  const startGroup = (/** @type {string} */ text) => { title = text; heading = null; count = 0; };
  for (const place of list.children) {
    if (place.matches('.group')) { startGroup(place.textContent.trim()); continue; }
    const card = /** @type {HTMLElement | null} */ (place.querySelector(':scope > article.card:not([data-removed])'));
    if (!card) continue;
    if (place.classList.contains('settled') && title !== 'Answered') startGroup('Answered');
    const group = title === 'Answered' ? answered : order;
    if (!heading) group.push(heading = findHeading(title));
    if (group === answered || isWaiting(card)) count += 1;  // lines of decided calls stay for a while
    heading.lastElementChild.textContent = String(count || '');
    const {line, isWritten} = findLine(card);
    hasNews ||= isWritten;
    group.push(line);
  }
  return {order, answered, hasNews};
}

/**
 * Put these lines into a list.
 * @param {Element} target
 * @param {HTMLElement[]} wanted
 */
function putLines(target, wanted) {
  for (const line of [...target.children]) if (!wanted.includes(/** @type {HTMLElement} */ (line))) line.remove();
  wanted.forEach((line, at) => {
    if (target.children[at] !== line) target.insertBefore(line, target.children[at] || null);
  });
}

/**
 * Put the lines in order. While the reader points at them none moves; only new ones at the end of what waits come.
 * Answered calls have a list of their own, so that calls that come and go do not move them. It ends at the bottom of
 * the box and has the newest first, so that it grows upwards and its lines stay where they are.
 * @param {HTMLElement[]} order
 * @param {HTMLElement[]} answered
 */
function arrange(order, answered) {
  const [target, end] = queue.querySelectorAll('.lines');
  const shown = [...target.children].map(line => /** @type {HTMLElement} */ (line));
  const present = shown.filter(line => order.includes(line) || answered.includes(line));
  let held = 0;
  let wanted = order;
  if (isPointed(queue) && present.length) {
    const lastWaiting = present.findLastIndex(line => line.matches('.line:not(.answered)'));
    const last = order.indexOf(present[lastWaiting]);
    const added = order.filter(line => !present.includes(line));
    const late = added.filter(line => order.indexOf(line) > last && !line.matches('.answered'));
    held = added.filter(line => line.matches('.line') && !late.includes(line)).length;
    wanted = [...present.slice(0, lastWaiting + 1), ...late, ...present.slice(lastWaiting + 1)];
  }
  putLines(target, wanted);
  const [heading, ...ended] = answered.filter(line => !wanted.includes(line));
  putLines(end, ended.length ? [heading, ...ended.reverse()] : []);
  const note = /** @type {HTMLElement} */ (queue.querySelector('[data-late]'));
  note.hidden = !held;
  note.textContent = `${held} new`;
}

/**
 * Show another card where the selected one is gone. It comes under a hand that was over the other.
 * @param {HTMLElement[]} cards
 */
function replaceSelected(cards) {
  if (cards.some(card => card.id === selectedId)) return;
  const next = cards.find(isWaiting) || cards[0];
  selectedId = next?.id || '';
  if (next) armCard(next);
}

/** Draw the lines, and show another card where the selected one is gone. */
export function drawQueue() {
  clearTimeout(drawTimer);
  drawTimer = 0;
  const cards = findCards();
  const ids = new Set(cards.map(card => card.id));
  for (const id of lines.keys()) if (!ids.has(id)) lines.delete(id);
  const {order, answered, hasNews} = buildOrder();
  arrange(order, answered);
  /** @type {HTMLElement} */ (queue.querySelector('.queue-empty')).hidden = cards.some(isWaiting);
  replaceSelected(cards);
  markSelected();
  keepSelected();
  if (hasNews) tick();
}

// ---------------------------------------------------------------- panels and buttons

/** Close what lies over the card: the list on narrow screens, and the groups of similar calls. */
function closePanels() {
  document.querySelector('.inbox').classList.remove('listing');
  const similar = /** @type {HTMLDetailsElement | null} */ (document.getElementById('similar'));
  if (similar && !similar.contains(document.activeElement)) similar.open = false;
}

/** @param {MouseEvent} event */
function handleClick(event) {
  const target = /** @type {HTMLElement} */ (event.target);
  const line = /** @type {HTMLElement | null} */ (target.closest('.queued'));
  if (line) {
    const card = document.getElementById(line.dataset.card);
    line.focus({preventScroll: true});
    selectCard(card);
    card?.focus({preventScroll: true});
  }
  if (target.closest('[data-late]')) { arrangeNow(); return; }
  const step = /** @type {HTMLElement | null} */ (target.closest('[data-step]'));
  if (step) {
    const steps = listSteps();
    const at = steps.findIndex(card => card.id === selectedId) + Number(step.dataset.step);
    selectCard(steps[Math.min(steps.length - 1, Math.max(0, at))]);
  }
  if (target.closest('[data-listing]')) document.querySelector('.inbox').classList.toggle('listing');
}

function arrangeNow() {
  queue.firstElementChild.replaceChildren();
  drawQueue();
}

/** Draw the queue next to the board, now and when the board changes. */
export function startQueue() {
  list = document.getElementById('board');
  queue = list && document.getElementById('queue');
  if (!queue) return;
  new MutationObserver(changes => {
    drawTimer ||= setTimeout(drawQueue, 50);
    if (!changes.some(change => change.target === list)) return;
    replaceSelected(findCards());
    keepSelected();  // before the next frame: nothing jumps
  }).observe(list, WATCHED);
  list.addEventListener('scroll', noteSwipe);
  for (const type of ['touchstart', 'touchend', 'touchcancel']) {
    list.addEventListener(type, () => { isTouched = type === 'touchstart'; }, {passive: true});
  }
  list.addEventListener('focusin', followFocus);
  queue.addEventListener('mouseleave', () => { drawTimer ||= setTimeout(drawQueue, 50); });
  document.querySelector('.inbox').addEventListener('click', event => handleClick(/** @type {MouseEvent} */ (event)));
  new ResizeObserver(scrollToSelected).observe(list);
  watchBoxes(queue);
  watchTickets(() => { for (const line of lines.values()) updateBox(line); });
  drawQueue();
}
