// On a long run's page, neighbors that went well fold into one line, off screen or before the page is seen.
// What failed, was denied or waits always stands out.
import {describeGroup, groupQuietCards} from './fold_groups.js';
import {isOnScreen, watchSight} from '../live/visibility.js';

const LONG = 8;  // cards on a page that folds
const CALM = 10_000;  // milliseconds since a card last changed: what has just ended is still being looked at
const WATCHED = {childList: true, subtree: true, attributes: true, attributeFilter: ['data-state', 'data-rev']};

/** @type {Set<string>} ids of the cards in folds that the reader has opened */
const openedCards = new Set();
/** @type {Map<string, number>} card id -> when it last changed */
const changedAt = new Map();
/** @type {HTMLElement} */
let list;
/** @type {Set<HTMLElement>} cards that the reader folds right now */
let closingCards = new Set();
let scheduled = 0;
let isFirst = true;
/** @type {MutationObserver} */
let observer;

/** @param {HTMLElement} card */
function isQuiet(card) {
  if (card.dataset.state !== 'output-available' || card.matches('[data-soft], [data-moving], [data-odd]')) return false;
  if (card.querySelector('.odd, .diff, [data-told], details[open]')) return false;
  if (card.contains(document.activeElement)) return false;
  if (performance.now() - (changedAt.get(card.id) ?? -CALM) < CALM) return false;
  return isFirst || closingCards.has(card) || card.parentElement.hidden || openedCards.has(card.id)
    || !isOnScreen(card.parentElement);
}

/** @param {HTMLElement} card */
const findAgent = card => card.dataset.agent || card.querySelector('.meta .path')?.textContent || '';

/**
 * Return what cards of one fold have in common: their agent, and the open text or gap that they stand under.
 * @returns {(card: HTMLElement) => string}
 */
function nameSections() {
  const texts = [...list.querySelectorAll(':scope > li > .wrote:has(> details[open]), :scope > .left-out')];
  return card => {
    const above = texts.filter(text => text.compareDocumentPosition(card) & Node.DOCUMENT_POSITION_FOLLOWING);
    return `${above.length} ${findAgent(card)}`;
  };
}

/** @param {string} id */
function makeLine(id) {
  const line = Object.assign(document.createElement('li'), {className: 'folded', id});
  const button = Object.assign(document.createElement('button'), {type: 'button'});
  for (const part of ['calls', 'named', 'took']) {
    button.append(Object.assign(document.createElement('span'), {className: part}));
  }
  line.append(button);
  return line;
}

/**
 * Return the line of a group, and whether the reader has opened it.
 * @param {HTMLElement[]} cards
 * @returns {[HTMLElement, boolean]}
 */
function updateLine(cards) {
  const id = `fold-${cards[0].id}`;
  const above = /** @type {HTMLElement | null} */ (cards[0].parentElement.previousElementSibling);
  const line = document.getElementById(id) || (above?.matches('.folded') ? above : makeLine(id));
  line.id = id;  // calls that stood before have left the page
  const isOpen = cards.some(card => openedCards.has(card.id));
  const button = /** @type {HTMLButtonElement} */ (line.firstElementChild);
  button.setAttribute('aria-expanded', String(isOpen));
  const calls = cards.map(card => (
    {tool: card.querySelector('.tool').textContent, milliseconds: Number(card.dataset.took) || 0}
  ));
  describeGroup(calls).forEach((text, at) => {
    if (button.children[at].textContent !== text) button.children[at].textContent = text;
  });
  button.onclick = () => {
    for (const card of cards) {
      if (isOpen) openedCards.delete(card.id);
      else openedCards.add(card.id);
    }
    closingCards = new Set(isOpen ? cards : []);
    updateFolds();
    closingCards.clear();
  };
  return [line, isOpen];
}

function updateFolds() {
  scheduled = 0;
  observer.disconnect();
  /** @type {HTMLElement[]} */
  const cards = [...list.querySelectorAll(':scope > li > article.card:not([data-removed])')]
    .map(card => /** @type {HTMLElement} */ (card));
  const hidden = new Set();
  const lines = new Set();
  const isFolded = (/** @type {HTMLElement} */ card) => card.parentElement.hidden;
  for (const group of cards.length >= LONG ? groupQuietCards(cards, isQuiet, nameSections(), isFolded) : []) {
    const [line, isOpen] = updateLine(group);
    lines.add(line);
    const first = group[0].parentElement;
    if (line.nextElementSibling !== first) list.insertBefore(line, first);
    if (!isOpen) for (const card of group) hidden.add(card.parentElement);
  }
  for (const line of list.querySelectorAll(':scope > .folded')) if (!lines.has(line)) line.remove();
  for (const {parentElement: place} of cards) {
    if (Boolean(place.hidden) === hidden.has(place)) continue;
    if (place.hidden) place.removeAttribute('hidden');
    else place.setAttribute('hidden', 'until-found');  // the browser's search still finds it
  }
  observer.observe(list, WATCHED);
}

const schedule = () => { scheduled ||= setTimeout(updateFolds, 200); };

/** Open the fold of the card that the address names. */
function revealTarget() {
  const card = document.getElementById(location.hash.slice(1));
  if (!card?.matches('article.card') || !card.parentElement.hidden) return;
  openedCards.add(card.id);
  updateFolds();
  card.scrollIntoView();
}

/**
 * Open the fold in which the browser's search has found something.
 * @param {Event} event
 */
function openFound(event) {
  for (const card of /** @type {Element} */ (event.target).querySelectorAll('article.card')) openedCards.add(card.id);
  updateFolds();
}

/** Fold the cards of a run's page, now and as they change. */
export function startFolds() {
  list = document.getElementById('board');
  if (list?.dataset.board !== 'run') return;
  observer = new MutationObserver(changes => {
    const now = performance.now();
    for (const change of changes) {
      const card = /** @type {Element} */ (change.target).closest?.('article.card');
      if (change.type === 'attributes' && card) changedAt.set(card.id, now);
    }
    schedule();
  });
  updateFolds();
  revealTarget();
  isFirst = false;
  watchSight(list, schedule);
  addEventListener('hashchange', revealTarget);
  list.addEventListener('beforematch', openFound);
  setInterval(schedule, CALM / 2);
}
