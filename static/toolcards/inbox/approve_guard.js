// Guards against approving by accident: a card that has just changed or moved takes no approval, a high risk takes two
// presses.
import {say} from '../page/announce.js';

const ARMING = 400;  // milliseconds in which a changed card takes no approval
const FAR = 60;  // pixels; a button that moves less comes under no hand that was over another one
const SURE = 4000;  // milliseconds in which the second press counts

/** @type {WeakMap<Element, {until: number, timer?: number, isSure: boolean, sureTimer?: number}>} */
const guards = new WeakMap();

/** @type {WeakMap<Element, {inWindow: number, onPage: number}>} approving button -> where it was */
const places = new WeakMap();

/** @param {Element} card */
function guardOf(card) {
  if (!guards.has(card)) guards.set(card, {until: 0, isSure: false});
  return guards.get(card);
}

/**
 * Let the card take no approval for a moment.
 * @param {Element} card
 */
export function armCard(card) {
  const approve = card.querySelector('button[name=decision][value=approve]');
  if (!approve) return;
  forgetFirstPress(card);
  const guard = guardOf(card);
  clearTimeout(guard.timer);
  approve.setAttribute('aria-disabled', 'true');
  const until = guard.until = performance.now() + ARMING;
  guard.timer = setTimeout(() => {
    if (guard.until === until) guard.until = 0;  // timers may be early
    card.querySelector('button[value=approve]')?.removeAttribute('aria-disabled');
  }, ARMING);
}

/** Arm the cards that something else has moved, and not the reader, who only moves the window over the page. */
function armMovedCards() {
  for (const button of document.querySelectorAll('#board > li > article[data-waiting] button[value=approve]')) {
    const inWindow = button.getBoundingClientRect().top;
    const onPage = inWindow + scrollY;
    const last = places.get(button);
    places.set(button, {inWindow, onPage});
    if (last && Math.abs(inWindow - last.inWindow) > FAR && Math.abs(onPage - last.onPage) > FAR) {
      armCard(button.closest('article'));
    }
  }
}

/** @param {Element} card */
function forgetFirstPress(card) {
  const guard = guardOf(card);
  clearTimeout(guard.sureTimer);
  guard.isSure = false;
  const button = /** @type {HTMLElement | null} */ (card.querySelector('button[data-asking]'));
  if (!button) return;
  delete button.dataset.asking;
  button.querySelector('.word').textContent = 'Approve';
}

/**
 * Turn the button into a question for a few seconds.
 * @param {Element} card
 * @param {HTMLButtonElement} button
 */
function askForSecondPress(card, button) {
  const tool = button.form.dataset.sure;
  const guard = guardOf(card);
  guard.isSure = true;
  guard.until = performance.now() + ARMING;  // a double click is one press
  button.dataset.asking = '';
  button.querySelector('.word').textContent = `Approve ${tool}?`;
  guard.sureTimer = setTimeout(() => forgetFirstPress(card), SURE);
  say(`High risk. Press again to approve ${tool}.`);
}

/** @param {MouseEvent} event */
function checkPress(event) {
  const target = /** @type {Element} */ (event.target);
  /** @type {HTMLButtonElement | null} */
  const button = target.closest?.(
    'button[name=decision][value=approve], button[name=decision][value=edit], button[name=always]');
  const card = button?.closest('article.card');
  if (!card) return;
  const guard = guardOf(card);
  const refuse = () => { event.preventDefault(); event.stopImmediatePropagation(); };
  if (performance.now() < guard.until) { refuse(); return; }
  if (!('sure' in button.form.dataset)) return;
  button.form.noValidate = true;  // the box to tick is for pages without scripts
  if (button.value === 'approve' && !guard.isSure) { refuse(); askForSecondPress(card, button); }
}

/** Guard every card of the page. */
export function startApproveGuard() {
  for (const card of document.querySelectorAll('article.card')) armCard(card);
  document.addEventListener('click', checkPress, true);
  const board = document.querySelector('#board:not([data-board=approvals])');  // the inbox shows one card at a time
  if (!board) return;
  const observer = new ResizeObserver(armMovedCards);  // between layout and paint: reading costs no layout
  observer.observe(board);
  observer.observe(board.closest('.page'));
}
