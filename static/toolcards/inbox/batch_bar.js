// The bar that answers all selected calls of the inbox at once, which stand below each other where there is room. A
// high risk is approved on its own card only.
import {say} from '../page/announce.js';
import {findSelectedCard, hasBoth, keepInBox} from './queue.js';
import {areAllSeen, countUnseen, watchSeen} from './seen_calls.js';
import {clearTickets, findTicket, listTickets, setTicket, watchTickets} from './selected_calls.js';

/** @type {HTMLFormElement} */
let bar;

/** @type {(id: string) => string} */
const findRisk = id => document.getElementById(id)?.dataset.risk || '';

/** Return why the selected calls cannot be approved together; "" where they can. */
function findObstacle() {
  const risks = new Set(listTickets().map(([id]) => findRisk(id)));
  if (risks.has('high')) return 'High risk: approve each call on its own card.';
  return risks.size > 1 ? 'To approve calls together, select calls of one risk level.' : '';
}

/** Show the selected calls, several below each other (`.picked` in inbox.css). */
function showPicked() {
  const ids = listTickets().map(([id]) => id);
  for (const place of document.querySelectorAll('#board > li')) {
    place.classList.toggle('picked', ids.length > 1 && ids.includes(place.firstElementChild?.id));
  }
  if (!hasBoth()) return;
  const shown = findSelectedCard();
  keepInBox(ids.length < 2 || ids.includes(shown?.id) ? shown : document.getElementById(ids.at(-1)));
}

function updateBar() {
  const count = listTickets().length;
  bar.hidden = !count;
  document.querySelector('.inbox').classList.toggle('picking', count > 0);
  showPicked();
  if (!count) return;
  const obstacle = findObstacle();
  /** @type {HTMLElement} */ (bar.querySelector('.counted')).textContent = `${count} selected`;
  const note = /** @type {HTMLElement} */ (bar.querySelector('.obstacle'));
  note.textContent = obstacle;
  note.hidden = !obstacle;
  bar.querySelector('button[value=deny] .word').textContent = `Deny ${count}`;
  const approve = /** @type {HTMLButtonElement} */ (bar.querySelector('button[value=approve]'));
  approve.hidden = Boolean(obstacle);
  countSeen();
}

/** Say on the button how many of the selected calls have not been on screen. */
function countSeen() {
  const tickets = listTickets().map(([, ticket]) => ticket);
  const unseen = countUnseen(tickets);
  const rest = unseen ? ` · ${unseen} unseen` : '';
  bar.querySelector('button[value=approve] .word').textContent = `Approve ${tickets.length}${rest}`;
}

/**
 * Put the tickets into the form that is about to be sent.
 * @param {SubmitEvent} event
 */
function fillForm(event) {
  const calls = listTickets().map(([id, ticket]) => {
    const line = document.querySelector(`#queue .line:has([data-pick="${CSS.escape(id)}"])`);
    return {ticket, part: hasBoth() ? document.getElementById(id) : line};
  });
  const button = /** @type {HTMLButtonElement | null} */ (event.submitter);
  if (button?.value === 'approve' && !areAllSeen(calls)) {
    event.preventDefault();
    event.stopImmediatePropagation();
    return;
  }
  for (const field of bar.querySelectorAll('input[name=pick]')) field.remove();
  for (const [, ticket] of listTickets()) {
    bar.append(Object.assign(document.createElement('input'), {type: 'hidden', name: 'pick', value: ticket}));
  }
}

/** Deselect calls that have changed or wait no longer. */
function forgetChanged() {
  for (const [id, ticket] of listTickets()) {
    const current = findTicket(document.getElementById(id));
    if (current === ticket || document.querySelector(`#batch input[data-card="${CSS.escape(id)}"]`)) continue;
    if (current) say('A call that you had selected has changed. It is no longer selected.');
    setTicket(id, '');
  }
}

/** Go to the bar, where `a` and `d` answer all that is selected. */
export function goToBar() {
  if (!bar || bar.hidden) say('Select calls with x first.');
  else bar.focus();
}

/** Let the bar answer what is selected, on the page that has it. */
export function startBatchBar() {
  bar = /** @type {HTMLFormElement | null} */ (document.getElementById('batch-bar'));
  if (!bar) return;
  watchTickets(updateBar);
  watchSeen(countSeen);
  bar.addEventListener('submit', fillForm, true);
  bar.addEventListener('click', event => {
    if (/** @type {Element} */ (event.target).closest('[data-clear]')) clearTickets();
  });
  new MutationObserver(forgetChanged).observe(document.getElementById('board'), {
    childList: true, subtree: true, attributes: true, attributeFilter: ['data-rev', 'data-waiting'],
  });
}
