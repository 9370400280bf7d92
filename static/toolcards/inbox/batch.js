// Several calls answered at once: what is ticked stays ticked while the page changes, unless the call itself changed.
import {say} from '../page/announce.js';
import {armCard} from './approve_guard.js';
import {writeText} from '../live/clock.js';
import {keepFold} from '../live/pushed_cards.js';
import {hasQueue, selectCard} from './queue.js';
import {areAllSeen, startSeenCalls} from './seen_calls.js';
import {findTicket, getTicket, listTickets, setTicket, watchTickets} from './selected_calls.js';

const ARMING = 400;  // milliseconds in which a group that came or changed cannot be approved
const WATCHED = {childList: true, subtree: true, attributes: true, attributeFilter: ['value', 'aria-disabled']};

/** @type {Map<string, string>} form id -> its tickets, joined */
let shownTickets = new Map();
/** @type {WeakMap<HTMLFormElement, {until: number, timer: number}>} */
const guards = new WeakMap();
/** @type {HTMLElement | null} */
let batch = null;

/** @type {(within: Element) => HTMLInputElement[]} */
const findBoxes = within => [...within.querySelectorAll('input[name=pick][type=checkbox]')]
  .map(box => /** @type {HTMLInputElement} */ (box));

/**
 * Write how many are ticked, and return it.
 * @param {HTMLFormElement} form
 */
function countTicked(form) {
  const boxes = findBoxes(form);
  const count = boxes.filter(box => box.checked).length;
  const every = /** @type {HTMLInputElement} */ (form.querySelector('[data-all]'));
  every.checked = count === boxes.length;
  every.indeterminate = count > 0 && !every.checked;
  for (const [value, word] of [['approve', 'Approve'], ['deny', 'Deny']]) {
    const label = form.querySelector(`button[value=${value}] .word`);
    if (label) writeText(label, count ? `${word} ${count}` : word);
  }
  const note = /** @type {HTMLElement} */ (form.closest('details').querySelector('.ticked'));
  note.hidden = !count;
  writeText(note, `${count} selected`);
  return count;
}

/** @type {(box: HTMLInputElement, isTicked: boolean) => void} */
function tickBox(box, isTicked) {
  box.checked = isTicked;
  setTicket(box.dataset.card, isTicked ? box.value : '');
}

/** @param {HTMLFormElement} form */
function armForm(form) {
  const approve = form.querySelector('button[value=approve]');
  if (!approve) return;
  clearTimeout(guards.get(form)?.timer);
  approve.setAttribute('aria-disabled', 'true');
  const timer = setTimeout(() => { guards.delete(form); approve.removeAttribute('aria-disabled'); }, ARMING);
  guards.set(form, {until: performance.now() + ARMING, timer});
}

/** Tick the boxes of the calls that are selected. */
function showTicks() {
  for (const box of findBoxes(batch)) box.checked = getTicket(box.dataset.card) === box.value;
}

/** Take the ticks off that the page no longer has; return the boxes whose call has changed. */
function forgetChangedTicks() {
  const boxes = new Map(findBoxes(batch).map(box => [box.dataset.card, box]));
  const changed = [];
  for (const [card, ticket] of listTickets()) {
    const box = boxes.get(card);
    if (box?.value === ticket || findTicket(document.getElementById(card)) === ticket) continue;
    setTicket(card, '');
    if (box) changed.push(box);
  }
  showTicks();
  return changed;
}

/** After the page has changed: put every tick where it was, unless its call has changed. */
function restoreTicks() {
  const changed = forgetChangedTicks();
  const tickets = new Map();
  for (const each of batch.querySelectorAll('details[id] > form')) {
    const form = /** @type {HTMLFormElement} */ (each);
    const id = form.parentElement.id;
    tickets.set(id, findBoxes(form).map(box => box.value).join('\n'));
    if (shownTickets.get(id) !== tickets.get(id)) armForm(form);
    else if (guards.has(form)) form.querySelector('button[value=approve]')?.setAttribute('aria-disabled', 'true');
    countTicked(form);
  }
  const hasMoved = [...shownTickets.keys()].join() !== [...tickets.keys()].join();
  shownTickets = tickets;
  if (hasMoved && !hasQueue()) {
    for (const card of document.querySelectorAll('#board article.card[data-waiting]')) armCard(card);
  }
  for (const box of changed) {
    box.closest('tr').classList.add('changed');
    say('A call that you had selected has changed and is no longer selected.');
  }
}

/** @param {HTMLElement} card */
function findBox(card) {
  const box = findBoxes(batch).find(each => each.dataset.card === card.id);
  if (!box) { say('No similar call is waiting.'); return null; }
  for (const details of [box.closest('details'), batch.closest('details')]) {
    if (!details) continue;
    details.open = true;
    keepFold(details);
  }
  return box;
}

/**
 * Select the card's call, or deselect it.
 * @param {HTMLElement} card
 */
export function pickCard(card) {
  const ticket = findTicket(card);
  if (!ticket) { say('This call cannot be answered here.'); return; }
  setTicket(card.id, getTicket(card.id) ? '' : ticket);
  const count = listTickets().length;
  const hint = count ? ', press b to answer them' : '';
  say(`${getTicket(card.id) ? 'Selected' : 'Not selected'}. ${count} selected${hint}.`);
}

/**
 * Tick all calls of the card's shape, and go to their form.
 * @param {HTMLElement} card
 */
export function pickShape(card) {
  const box = findBox(card);
  if (!box) return;
  for (const each of findBoxes(box.form)) tickBox(each, true);
  say(`${countTicked(box.form)} selected. Press a to approve them, d to deny them.`);
  box.form.focus({preventScroll: true});
  box.form.scrollIntoView({block: 'nearest'});
}

/** @param {SubmitEvent} event */
function checkSubmit(event) {
  const form = /** @type {HTMLFormElement} */ (/** @type {Element} */ (event.target).closest?.('#batch form'));
  const button = /** @type {HTMLButtonElement | null} */ (event.submitter);
  if (!form || button?.name !== 'answer' || form.matches('.of-run')) return;
  /** @param {string} text */
  const refuse = text => { event.preventDefault(); event.stopImmediatePropagation(); say(text); };
  const ticked = findBoxes(form).filter(box => box.checked);
  if (!ticked.length) refuse('Select the calls first.');
  else if (button.value === 'approve' && performance.now() < (guards.get(form)?.until || 0)) {
    refuse('The calls have just changed. Review them again.');
  } else if (button.value === 'approve') {
    const calls = ticked.map(box => ({ticket: box.value, part: box.closest('tr')}));
    if (!areAllSeen(calls)) { event.preventDefault(); event.stopImmediatePropagation(); }
  }
}

/** @param {Event} event */
function handleTick(event) {
  const box = /** @type {HTMLInputElement} */ (event.target);
  const isTicked = box.checked;  // the first tick below changes it
  if (box.matches('[data-all]')) for (const each of findBoxes(box.form)) tickBox(each, isTicked);
  else if (box.name === 'pick') tickBox(box, box.checked);
  else return;
  box.closest('tr')?.classList.remove('changed');
  countTicked(box.form);
}

/** @param {MouseEvent} event */
function goToCard(event) {
  /** @type {HTMLElement | null} */
  const link = /** @type {Element} */ (event.target).closest('a[data-card]');
  const card = link && document.getElementById(link.dataset.card);
  if (!card) return;
  event.preventDefault();
  selectCard(card);
  card.focus({preventScroll: true});
  card.scrollIntoView({block: 'nearest'});
}

/** @param {HTMLElement} results - where the answers of a batch are shown */
function watchResults(results) {
  results.addEventListener('click', event => {
    if (!(/** @type {Element} */ (event.target).closest('[data-close]'))) return;
    results.replaceChildren();
    const next = /** @type {HTMLElement | null} */ (document.querySelector('article.card[data-waiting]'));
    (next || document.getElementById('main')).focus({preventScroll: true});
  });
  new MutationObserver(() => {
    const panel = document.getElementById('results');
    if (!panel) return;
    say(panel.dataset.line);
    panel.focus();
  }).observe(results, {childList: true});
}

/** Let the reader tick calls and answer them together. */
export function startBatch() {
  batch = document.getElementById('batch');
  if (!batch) return;
  startSeenCalls();
  document.addEventListener('submit', checkSubmit, true);
  batch.addEventListener('change', handleTick);
  batch.addEventListener('click', goToCard);
  const observer = new MutationObserver(() => {
    observer.disconnect();
    restoreTicks();
    observer.observe(batch, WATCHED);
  });
  watchTickets(() => {
    showTicks();
    for (const form of batch.querySelectorAll('details[id] > form')) {
      if (!form.matches('.of-run')) countTicked(/** @type {HTMLFormElement} */ (form));
    }
  });
  restoreTicks();
  observer.observe(batch, WATCHED);
  watchResults(document.getElementById('batch-said'));
}
