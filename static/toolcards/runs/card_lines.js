// On the page of a run, calls that are not among the newest are lines: one link in the article of the card. On the list
// of all calls, every call is a line until the reader opens it, except the first few that wait. A press puts the card
// there. Cards that need not be cards any longer become lines when they are off screen.
import {doAfterFrame} from '../live/next_frame.js';
import {isOnScreen, wasDrawn, watchSight} from '../live/visibility.js';

const PAUSE = 300;  // milliseconds between a change and the look for cards to shorten
const MOST_CARDS = 24;  // cards that may wait for that; a flood is shortened at once
const MOST_MESSAGE = 120;  // characters of an error on a line
const ID = /^#c-(\d+)-(\d+)$/;

/** @type {Set<string>} ids of the cards that the reader has opened */
const openedCards = new Set();
/** @type {Set<string>} ids of the cards that are on their way */
const loadingCards = new Set();
/** @type {HTMLElement | null} */
let list = null;
let scheduled = 0;

/** @param {Element} element */
const isLine = element => element.hasAttribute('data-line');

/**
 * Put the card of a line in its place.
 * @param {HTMLElement} card
 * @param {boolean} [isFocused] - whether the card gets the focus
 */
export async function openLine(card, isFocused = false) {
  openedCards.add(card.id);
  if (!isLine(card) || loadingCards.has(card.id)) return;
  loadingCards.add(card.id);
  const link = /** @type {HTMLAnchorElement} */ (card.querySelector('.call-line'));
  try {
    await htmx.ajax('GET', `${link.getAttribute('href')}card/`, {target: '#board', swap: 'place'});
  } finally {
    loadingCards.delete(card.id);
  }
  if (isFocused) document.getElementById(card.id)?.focus({preventScroll: true});
}

/**
 * Return where a call comes from: agent, run and time of day.
 * @param {HTMLElement} card
 */
function makeOrigin(card) {
  const origin = Object.assign(document.createElement('small'), {className: 'origin'});
  const run = document.createElement('span');
  run.append(...card.querySelector('.meta .runlink').childNodes);
  origin.append(card.querySelector('.meta .path') || '', run, card.querySelector('.meta time') || '');
  return origin;
}

/**
 * Return the line of a card: its state, summary, tool, first remark and duration in one link.
 * @param {HTMLElement} card
 */
function makeLine(card) {
  const line = Object.assign(document.createElement('a'), {className: 'permalink call-line', id: `${card.id}-h`});
  line.href = card.querySelector('.permalink').getAttribute('href');
  const word = Object.assign(document.createElement('b'), {className: 'st'});
  word.append(...card.querySelector('.st').childNodes);
  word.querySelector('.icon')?.remove();
  const summary = card.querySelector('.sum');
  const message = 'soft' in card.dataset ? '' : card.querySelector('.error .message')?.textContent;
  if (message) summary.append(`${summary.textContent && ' · '}${message.replace(/\s+/g, ' ').slice(0, MOST_MESSAGE)}`);
  line.append(word, ' ', summary, ' ', card.querySelector('.tool'), ' ');
  const remark = card.querySelector('[data-anomaly] > span');
  if (remark) line.append(Object.assign(remark, {className: 'remark'}), ' ');
  line.append(card.querySelector('.dur') || '');
  if (isListOfAll()) line.append(' ', makeOrigin(card));
  return line;
}

/** @param {HTMLElement} card */
function shorten(card) {
  const path = card.querySelector('.meta .path')?.textContent;
  if (path) card.dataset.agent = path;
  card.toggleAttribute('data-odd', Boolean(card.querySelector('.odd, .diff, [data-by-hand]')));
  card.toggleAttribute('data-line', true);
  card.replaceChildren(makeLine(card));
}

const isListOfAll = () => list?.dataset.board === 'calls';

/** Return whether the list of all calls has room for one more card that the reader has not opened. */
function hasRoomForCard() {
  const cards = [...list.querySelectorAll('article.card:not([data-line])')].filter(card => !openedCards.has(card.id));
  return cards.length < Number(list.dataset.mostCards);
}

/**
 * Make a line of a pushed card where the page shows the call as a line, or has no room for more cards.
 * @param {HTMLElement} card - not on the page yet
 * @param {HTMLElement | null} present - the same call on the page
 */
export function shortenPushed(card, present) {
  if (!isListOfAll() || isLine(card) || openedCards.has(card.id)) return;
  if (present ? isLine(present) : !(card.hasAttribute('data-waiting') && hasRoomForCard())) shorten(card);
}

/** @param {HTMLElement} place */
const isOutOfSight = place => place.hidden || !wasDrawn(place) || !isOnScreen(place);

/** @param {HTMLElement} card */
const isFree = card => isOutOfSight(card.parentElement) && !(openedCards.has(card.id)
  || card.hasAttribute('data-waiting') || card.contains(document.activeElement)
  || card.querySelector('[data-told], form.undo, details[open]'));

/** Shorten the cards that are no longer among the newest, and open again what the reader had opened. */
function updateLines() {
  clearTimeout(scheduled);
  scheduled = 0;
  const cards = /** @type {HTMLElement[]} */ ([...list.querySelectorAll(':scope > li > article.card')]);
  for (const card of cards.slice(0, cards.length - Number(list.dataset.whole))) {
    if (isLine(card)) {
      if (openedCards.has(card.id)) openLine(card);
    } else if (isFree(card)) shorten(card);
  }
}

const schedule = () => { scheduled ||= setTimeout(updateLines, PAUSE); };

function handleChange() {
  if (list.querySelectorAll('article.card:not([data-line])').length <= MOST_CARDS) schedule();
  else if ('following' in list.dataset) doAfterFrame(updateLines);
  else updateLines();
}

/** Open the call that the address names; one that is not on this page is on an earlier one. */
function openTarget() {
  const card = document.getElementById(location.hash.slice(1));
  const named = ID.exec(location.hash);
  if (card?.matches('article.card')) {
    openLine(card, true);
  } else if (!card && named && list.dataset.board === 'run' && !('frozen' in list.dataset)) {
    const url = new URL(location.href);
    url.searchParams.set('before', String(Number(named[2]) + Math.ceil(Number(list.dataset.whole) / 2)));
    location.replace(url);
  }
}

/** @param {MouseEvent} event */
function handleClick(event) {
  const line = /** @type {Element} */ (event.target).closest?.('a.call-line');
  const hasModifier = event.ctrlKey || event.metaKey || event.shiftKey || event.altKey;
  if (!line || event.defaultPrevented || event.button || hasModifier) return;
  event.preventDefault();
  openLine(line.closest('article'), true);
}

/** Let lines open, and let cards become lines, on the pages that have lines. */
export function startCardLines() {
  list = document.querySelector('#board[data-whole]');
  if (!list) return;
  list.addEventListener('click', handleClick);
  new MutationObserver(handleChange).observe(list, {childList: true, subtree: true, attributeFilter: ['data-line']});
  watchSight(list, schedule);
  addEventListener('hashchange', openTarget);
  openTarget();
}
