// On the page of a run, a button counts the calls that came below the screen since the reader last saw its end, and
// leads there.
import {isFollowing} from './follow.js';
import {isOnScreen, wasDrawn, watchSight} from '../live/visibility.js';

/** @type {HTMLElement | null} */
let list = null;
let seenOrdinal = 0;

/** @returns {HTMLElement | undefined} */
const findNewest = () => /** @type {HTMLElement[]} */ ([...list.querySelectorAll(':scope > li > article.card')]).at(-1);

/** Return the button, which is there while there is something to lead to. */
const findButton = () => /** @type {HTMLButtonElement | null} */ (document.querySelector('button.new-calls'));

function updateButton() {
  const newest = findNewest();
  const place = newest?.parentElement;
  if (!place || !wasDrawn(place)) return;
  const ordinal = Number(newest.dataset.ordinal);
  if (isFollowing() || isOnScreen(place)) seenOrdinal = ordinal;
  const count = ordinal - seenOrdinal;
  let button = findButton();
  if (count <= 0) { button?.remove(); return; }
  if (!button) {
    button = Object.assign(document.createElement('button'), {type: 'button', className: 'btn pri new-calls'});
    button.addEventListener('click', showNewCalls);
    list.after(button);
  }
  button.textContent = count === 1 ? '1 new call' : `${count} new calls`;
}

/** Go to the newest call, if some came below the screen; return whether that was so. */
export function showNewCalls() {
  if (!list || !findButton()) return false;
  scrollTo({top: Number.MAX_SAFE_INTEGER});
  findNewest()?.focus({preventScroll: true});
  return true;
}

/** Count new calls on the page of a run. */
export function startNewCalls() {
  list = document.querySelector('#board[data-board=run]:not([data-frozen])');
  if (!list) return;
  seenOrdinal = Number(findNewest()?.dataset.ordinal) || 0;
  watchSight(list, updateButton);
}
