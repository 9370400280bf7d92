// The inbox on a wide screen: what waits as a list on the left, the one card that is read on the right.
// The list mirrors the board; without it (narrow screens, no scripts) all cards stand below each other.

const wideScreen = matchMedia('(width >= 1500px)');
const WATCHED = {childList: true, subtree: true, attributes: true, attributeFilter: ['data-state', 'data-rev']};

/** @type {HTMLElement | null} */
let list = null;
/** @type {HTMLElement | null} */
let queue = null;
let selectedId = '';
let scheduled = 0;

/** @returns {HTMLElement[]} */
const findCards = () => [...list.querySelectorAll(':scope > li > article.card:not([data-removed])')]
  .map(card => /** @type {HTMLElement} */ (card));

/** @type {(card: Element, part: string) => string} */
const readPart = (card, part) => card.querySelector(part)?.textContent.trim() || '';

/** @type {(tag: string, className: string, textContent?: string) => HTMLElement} */
const make = (tag, className, textContent = '') => Object.assign(document.createElement(tag), {className, textContent});

/** @param {HTMLElement} card */
function makeLine(card) {
  const item = document.createElement('li');
  const button = make('button', 'queued');
  button.setAttribute('type', 'button');
  button.dataset.card = card.id;
  const badge = card.querySelector('.badge.st').cloneNode(true);
  const about = make('span', 'about');
  about.append(make('code', 'tool', readPart(card, '.tool')), make('span', 'sum', readPart(card, '.sum')));
  const origin = [readPart(card, '.meta .path'), readPart(card, '.meta .runlink')].filter(Boolean).join(' · ');
  button.append(badge, about, make('span', 'foot', origin));
  if (card.id === selectedId) button.setAttribute('aria-current', 'true');
  button.addEventListener('click', () => { showCard(card); card.focus({preventScroll: true}); });
  item.append(button);
  return item;
}

/** @param {Element} place */
function makeQueuePlace(place) {
  const card = /** @type {HTMLElement | null} */ (place.querySelector(':scope > article.card:not([data-removed])'));
  if (card) return makeLine(card);
  const isHeading = place.matches('.group') && place.nextElementSibling?.querySelector('article.card');
  return isHeading ? make('li', 'group', place.textContent) : null;
}

function draw() {
  scheduled = 0;
  const cards = findCards();
  const isSplit = wideScreen.matches && cards.length > 1;
  list.classList.toggle('split', isSplit);
  queue.hidden = !isSplit;
  if (!isSplit) return;
  if (!cards.some(card => card.id === selectedId)) {
    selectedId = (cards.find(card => card.hasAttribute('data-waiting')) || cards[0]).id;
  }
  for (const card of cards) card.parentElement.classList.toggle('selected', card.id === selectedId);
  const focusedId = /** @type {HTMLElement} */ (document.activeElement)?.dataset?.card;
  queue.firstElementChild.replaceChildren(...[...list.children].map(makeQueuePlace).filter(Boolean));
  if (!focusedId) return;
  /** @type {HTMLElement | null} */ (queue.querySelector(`[data-card="${CSS.escape(focusedId)}"]`))?.focus();
}

/** @param {HTMLElement} card */
function showCard(card) {
  selectedId = card.id;
  draw();
}

/**
 * Show this card on the right, where the page has a queue.
 * @param {HTMLElement | null | undefined} card
 */
export function selectCard(card) {
  if (queue && card && card.parentElement?.parentElement === list && card.id !== selectedId) showCard(card);
}

/** Draw the queue beside the board, now and as the board changes. */
export function startQueue() {
  list = document.getElementById('board');
  queue = list && document.getElementById('queue');
  if (!queue) return;
  new MutationObserver(() => { scheduled ||= setTimeout(draw, 50); }).observe(list, WATCHED);
  wideScreen.addEventListener('change', draw);
  draw();
}
