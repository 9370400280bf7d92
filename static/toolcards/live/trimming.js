// Keeps a list within its limit of cards. On the page of a run, nothing that the reader sees moves or disappears: calls
// leave above the screen first, then off screen before the newest ones, where a line shows how many are missing.
import {doAfterFrame} from './next_frame.js';
import {isOnScreen, wasDrawn} from './visibility.js';

const MOST = 200;  // cards on a page
const TEXT_LINES = 2;  // a block of text takes the place of two cards

/**
 * Return how many lines of the limit a place takes; the line of a fold takes none.
 * @param {Element} place
 */
function weigh(place) {
  if (place.querySelector(':scope > .wrote')) return TEXT_LINES;
  return place.querySelector(':scope > article.card') ? 1 : 0;
}

/** @param {Element} place */
const isSeen = place => wasDrawn(place) && isOnScreen(place);

/** @param {Element} place */
const isNeeded = place => (
  place.contains(document.activeElement) || Boolean(place.querySelector(':scope > [data-waiting]'))
);

/**
 * Return the last place of a fold whose line the reader sees, so that the fold keeps a call; else the place itself.
 * @param {Element[]} places
 * @param {number} index
 */
function findEndOfFold(places, index) {
  let end = index;
  if (places[index]?.matches('.folded')) while (/** @type {HTMLElement} */ (places[end + 1])?.hidden) end += 1;
  return end;
}

/**
 * Return the places that leave, so that at most this many lines stay.
 * @param {Element[]} places
 * @param {number} most
 * @param {number} newest - how many places at the end stay in any case
 */
function chooseLeaving(places, most, newest) {
  const firstSeen = findEndOfFold(places, places.findIndex(isSeen));
  const lastSeen = findEndOfFold(places, places.findLastIndex(isSeen));
  const above = places.slice(0, firstSeen < 0 ? -newest : firstSeen);
  const below = places.slice(lastSeen + 1, -newest).reverse();
  let surplus = places.reduce((sum, place) => sum + weigh(place), 0) - most;
  const leaving = new Set();
  for (const place of [...above, ...below]) {
    if (surplus <= 0) break;
    if (leaving.has(place) || !weigh(place) || isNeeded(place)) continue;
    leaving.add(place);
    surplus -= weigh(place);
  }
  return leaving;
}

/** @param {string} ordinal - of the first call that the linked page does not show */
function buildOlderUrl(ordinal) {
  const page = /** @type {HTMLAnchorElement} */ (document.querySelector('a[data-page]'));
  const url = new URL(page.href);  // it names the run's source, which this page's address may not
  url.searchParams.set('before', ordinal);
  return url.pathname + url.search;
}

/** @param {Element} place */
const findCard = place => /** @type {HTMLElement | null} */ (place.querySelector(':scope > article.card'));

/**
 * Let each gap say how many calls are missing, and remove those without calls before them or missing ones.
 * @param {HTMLElement} list
 */
function updateGaps(list) {
  let before = 0;
  /** @type {Element | null} */
  let gap = null;
  for (const place of [...list.children]) {
    const card = findCard(place);
    if (place.matches('.left-out')) {
      if (gap || !before) place.remove();
      else gap = place;
    } else if (card) {
      const missing = Number(card.dataset.ordinal) - before - 1;
      if (gap && missing < 1) gap.remove();
      else if (gap) {
        const link = /** @type {HTMLAnchorElement} */ (gap.firstElementChild);
        link.textContent = missing === 1 ? '1 call not shown here' : `${missing} calls not shown here`;
        link.href = buildOlderUrl(card.dataset.ordinal);
      }
      gap = null;
      before = Number(card.dataset.ordinal);
    }
  }
}

/**
 * Let "Older calls" lead to what is no longer on the page.
 * @param {HTMLElement} list
 */
function linkOlderCalls(list) {
  const oldest = /** @type {HTMLElement | null} */ (list.querySelector('article.card'));
  const link = /** @type {HTMLAnchorElement | null} */ (document.getElementById('older'));
  if (!oldest || !link || oldest.dataset.ordinal === '1') return;
  link.href = buildOlderUrl(oldest.dataset.ordinal);
  link.hidden = false;
}

function trimRun() {
  const list = document.getElementById('board');
  const leaving = chooseLeaving([...list.children], Number(list.dataset.most), Number(list.dataset.whole));
  if (!leaving.size) return;
  for (const place of leaving) {
    const gap = document.createElement('li');
    gap.className = 'left-out';
    gap.append(document.createElement('a'));
    place.replaceWith(gap);
  }
  updateGaps(list);
  linkOlderCalls(list);
}

/**
 * Take off the oldest cards beyond the list's limit, except those that wait or that the reader is in.
 * @param {HTMLElement} list
 */
function trimOldest(list) {
  const places = [...list.children];
  if (!(list.dataset.order || '').startsWith('-')) places.reverse();
  for (const place of places.slice(Number(list.dataset.most) || MOST)) if (!isNeeded(place)) place.remove();
}

/**
 * Take cards beyond the list's limit off the page.
 * @param {HTMLElement} list
 */
export function trimBoard(list) {
  if (list.dataset.board !== 'run') trimOldest(list);
  else if ('following' in list.dataset) doAfterFrame(trimRun);
  else trimRun();
}
