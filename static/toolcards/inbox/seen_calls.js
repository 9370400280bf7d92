// Which calls have been on the reader's screen, as a card, as a line of the list or as a row of a group, and in which
// version. Only those are approved together.
import {showNote} from '../page/toast.js';
import {say} from '../page/announce.js';
import {hasBoth} from './queue.js';
import {findTicket} from './selected_calls.js';

const PARTS = '#batch tr:has(input[name=pick]), #queue .line, #board > li > article[data-waiting]';
const ENOUGH = 120;  // pixels of a part that is too high to be half on screen

/** @type {Set<string>} tickets, which name the version */
const seenTickets = new Set();
/** @type {Set<Element>} parts that are on screen now, whose version can change there */
const partsOnScreen = new Set();
/** @type {Set<() => void>} */
const listeners = new Set();

/** @param {Element} part */
function readTicket(part) {
  const box = /** @type {HTMLInputElement | null} */ (part.querySelector('input[name=pick], input[data-pick]'));
  if (box?.name === 'pick') return box.value;
  return findTicket(box ? document.getElementById(box.dataset.pick) : part);
}

/** Note what is on screen. A line is not enough where the selected calls themselves stand next to it. */
function noteParts() {
  if (document.hidden) return;
  const before = seenTickets.size;
  for (const part of partsOnScreen) {
    if (part.isConnected && !(hasBoth() && part.matches('.line'))) seenTickets.add(readTicket(part));
  }
  if (seenTickets.size > before) for (const listener of listeners) listener();
}

const observer = new IntersectionObserver(entries => {
  noteParts();
  for (const {target, isIntersecting, intersectionRatio, intersectionRect} of entries) {
    if (isIntersecting && (intersectionRatio >= .5 || intersectionRect.height >= ENOUGH)) partsOnScreen.add(target);
    else partsOnScreen.delete(target);
  }
  noteParts();
}, {threshold: Array.from({length: 21}, (_, step) => step / 20)});  // often enough to notice the pixels above

/** @param {string[]} tickets */
export const countUnseen = tickets => tickets.filter(ticket => !seenTickets.has(ticket)).length;

/** @param {() => void} listener - called when more calls have been on screen */
export const watchSeen = listener => { listeners.add(listener); };

/**
 * Return whether all these calls have been on screen; else say so, and bring the first that was not.
 * @param {{ticket: string, part: Element | null | undefined}[]} calls
 */
export function areAllSeen(calls) {
  noteParts();
  const unseen = calls.filter(({ticket}) => !seenTickets.has(ticket));
  if (!unseen.length) return true;
  unseen[0].part?.scrollIntoView({block: 'start'});
  const text = `${unseen.length} of the ${calls.length} selected have not been on screen yet. Scroll to see them all, `
    + 'then approve.';
  showNote(text);
  say(text);
  return false;
}

/** Notice what comes on screen, on the page that lists similar calls. */
export function startSeenCalls() {
  const watchParts = () => { for (const part of document.querySelectorAll(PARTS)) observer.observe(part); };
  new MutationObserver(watchParts).observe(document.querySelector('.inbox'), {childList: true, subtree: true});
  watchParts();
}
