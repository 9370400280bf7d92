// Single-key shortcuts: off in fields, off with modifiers, and off altogether for readers who want that.
import {showHelp, switchTheme} from './actions.js';
import {say} from './announce.js';
import {openLine} from '../runs/card_lines.js';
import {releaseHeldCards} from '../live/held_cards.js';
import {FIELDS, explainLostField, hasLostField} from './lost_field.js';
import {showNewCalls} from '../runs/new_calls.js';
import {keepFold} from '../live/pushed_cards.js';
import {readPreference} from './preferences.js';
import {findSelectedCard, hasQueue, listSteps, selectCard} from '../inbox/queue.js';
import {releaseRows} from '../runs/runs_table.js';
import {loadNewRows} from '../runs/statistics_table.js';
import {explainNoUndo, findDecidedUndo, showNote} from './toast.js';
import {openCard} from '../inbox/waiting_slots.js';

const GO_TIME = 1500;  // milliseconds in which the second key of "g n" counts

/** @type {Record<string, string>} */
const PLACES = {n: '/', a: '/approvals/', r: '/runs/', c: '/calls/', p: '/policy/', s: '/sources/'};
let goingSince = 0;

/** @type {(filter?: string) => HTMLElement[]} */
const findCards = (filter = '') => [...document.querySelectorAll(`article.card${filter}`)]
  .filter(card => !card.closest('li[hidden]')).map(card => /** @type {HTMLElement} */ (card));

/** @returns {HTMLElement | null} */
const findCurrent = () => document.activeElement?.closest?.('article.card') || findSelectedCard();

/** @param {HTMLElement | undefined} card */
function goToCard(card) {
  if (!card) return;
  selectCard(card);
  openCard(card);
  if (card.matches('[data-line][data-waiting]')) openLine(card, true);
  card.focus({preventScroll: true});
  if (!hasQueue()) card.scrollIntoView({block: 'nearest'});
}

/** @param {number} by */
function step(by) {
  const cards = hasQueue() ? listSteps() : findCards();
  goToCard(cards[Math.min(cards.length - 1, Math.max(0, cards.indexOf(findCurrent()) + by))]);
}

function goToNextWaiting() {
  const cards = findCards('[data-waiting]');
  if (cards.length) goToCard(cards[(cards.indexOf(findCurrent()) + 1) % cards.length]);
  else location.assign('/approvals/');
}

/** Return the card in focus, or the only one that waits. */
function findCard() {
  const waiting = findCards('[data-waiting]');
  return findCurrent() || (waiting.length === 1 ? waiting[0] : null);
}

/** @returns {HTMLElement | null} */
const findGroup = () => document.activeElement?.closest?.('#batch form, #batch-bar');

function approve() {
  const group = findGroup();
  /** @type {HTMLButtonElement | null} */
  const button = (group || findCard())?.querySelector('button[value=approve]');
  if (button && !button.hidden) button.click();
  else if (group) say('High risk: approve each call on its own card.');
}

function deny() {
  const place = findGroup() || findCard();
  /** @type {HTMLInputElement | null} */
  const reason = place?.querySelector('.reason input');
  openCard(reason?.closest('article.card'));
  if (reason) reason.focus();
  else /** @type {HTMLElement} */ (place?.querySelector('button[name=decision][value=deny]'))?.click();
}

function undo() {
  const form = findDecidedUndo() || findCurrent()?.querySelector('form.undo');
  if (form) { /** @type {HTMLFormElement} */ (form).requestSubmit(); return; }
  const reason = explainNoUndo();
  showNote(reason);
  say(reason);
}

function edit() {
  /** @type {HTMLElement | null} */
  const field = findCard()?.querySelector('textarea[name=edited_args]');
  if (!field) { say('The rule does not allow edits of this call.'); return; }
  const details = field.closest('details');
  details.open = true;
  keepFold(details);
  field.focus();
}

function makeRule() {
  const link = findCard()?.querySelector('.permalink');
  if (!link) return;
  if (document.body.dataset.can.includes('policy')) location.assign(`${link.getAttribute('href')}rule/`);
  else say('Only admins can create rules.');
}

/** @param {(card: HTMLElement) => void} pick */
const picking = pick => () => {
  const card = findCard();
  if (card) pick(card);
};

const sayNoBatch = () => say('Calls are selected in the inbox, under Approvals.');

function goToFilter() {
  const field = /** @type {HTMLElement | null} */ (document.querySelector('[data-filter]'));
  if (field) field.focus();
  else location.assign('/calls/');
}

function showNews() {
  if (!releaseRows() && !loadNewRows() && !showNewCalls()) releaseHeldCards();
}

function openPage() {
  /** @type {HTMLElement} */ (findCurrent()?.querySelector('.permalink'))?.click();
}

/** @type {Record<string, () => void>} */
const KEYS = {
  j: () => step(1), k: () => step(-1), n: goToNextWaiting, a: approve, d: deny, z: undo, e: edit, r: makeRule,
  arrowdown: () => step(1), arrowup: () => step(-1), b: sayNoBatch,
  x: picking(sayNoBatch), s: picking(sayNoBatch), '.': showNews, '?': showHelp, t: switchTheme,
  g: () => { goingSince = Date.now(); }, '/': goToFilter, enter: openPage,
};

/**
 * Let keys select calls and lead to the bar that answers them, on the page that has it.
 * @param {(card: HTMLElement) => void} pickCard
 * @param {(card: HTMLElement) => void} pickShape
 * @param {() => void} goToBar
 */
export function setBatchKeys(pickCard, pickShape, goToBar) {
  Object.assign(KEYS, {x: picking(pickCard), s: picking(pickShape), b: goToBar});
}

/**
 * Handle a key in a field: only Ctrl+Enter and Escape mean anything, and a bare Enter decides nothing.
 * @param {KeyboardEvent} event
 * @param {HTMLInputElement} field
 */
function handleFieldKey(event, field) {
  if (event.key === 'Enter' && field.closest('.reason')) {
    event.preventDefault();
    if (!event.ctrlKey && !event.metaKey) return;
    /** @type {HTMLElement} */ (field.form.querySelector('button[value=deny]')).click();
  }
  const place = /** @type {HTMLElement} */ (field.closest('article.card, #batch form, #batch-bar'));
  if (event.key === 'Escape') place?.focus();
}

/**
 * Move the window of a long run's timeline; return whether the key did.
 * @param {KeyboardEvent} event
 */
function moveMinimap(event) {
  const isArrow = ['ArrowLeft', 'ArrowRight'].includes(event.key);
  if (!isArrow || !document.activeElement?.matches('[data-minimap]')) return false;
  event.preventDefault();
  const relation = event.key === 'ArrowLeft' ? 'prev' : 'next';
  /** @type {HTMLElement} */ (document.querySelector(`.pager a[rel=${relation}]`))?.click();
  return true;
}

/** Return whether the arrow keys may step: in the inbox, while they do not scroll what is in focus. */
const isArrowFree = () => hasQueue()
  && Boolean(document.activeElement?.matches('body, main, article.card, .queued, [data-pick]'));

/** Go back from a form for several calls to the call that is shown. */
function leaveGroup() {
  if (findGroup() || document.activeElement?.closest('#similar, #batch-bar')) {
    /** @type {HTMLElement} */ (document.activeElement).blur();
    goToCard(findSelectedCard());
  }
}

/** @param {KeyboardEvent} event */
function handleKey(event) {
  const target = /** @type {Element} */ (event.target);
  const field = /** @type {HTMLInputElement | null} */ (target.closest?.(`${FIELDS}, dialog[open]`));
  if (field) { handleFieldKey(event, field); return; }
  if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing || readPreference('keys') === 'off') return;
  if (hasLostField()) {
    if (event.key.length === 1) { event.preventDefault(); explainLostField(); }
    return;
  }
  if (moveMinimap(event)) return;
  const key = event.key.toLowerCase();
  if (event.repeat && 'adz'.includes(key)) return;  // a key held down answers once
  if (Date.now() - goingSince < GO_TIME && PLACES[key]) {
    goingSince = 0;
    location.assign(PLACES[key]);
    return;
  }
  if (key === 'enter' && !document.activeElement?.matches('article.card')) return;
  if (key.startsWith('arrow') && !isArrowFree()) return;
  if (key === 'escape') { leaveGroup(); return; }
  if (!KEYS[key]) return;
  event.preventDefault();
  KEYS[key]();
}

/** Listen to the shortcuts. */
export function startKeys() {
  document.addEventListener('keydown', handleKey);
}
