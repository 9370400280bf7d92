// A short note at the edge of the window: what the reader has just decided, with the way to take it back.

const SHOWN_FOR = 6_000;  // milliseconds, where nothing can be undone
const UNDO_SHOWN_FOR = 30_000;  // milliseconds; the card offers the undo for longer

let hideTimer = 0;
let decidedId = '';  // of the card that the reader decided last
/** @type {MutationObserver | null} */
let watcher = null;

/** @returns {HTMLElement} */
function findToast() {
  const present = document.getElementById('toast');
  if (present) return present;
  const toast = Object.assign(document.createElement('div'), {id: 'toast', className: 'toast', hidden: true});
  document.body.append(toast);
  return toast;
}

function hideToast() {
  clearTimeout(hideTimer);
  watcher?.disconnect();
  findToast().hidden = true;
}

/**
 * Return the form that takes the decision on this card back, while it can be.
 * @param {Element} card
 * @returns {HTMLFormElement | null}
 */
const findUndo = card => card.querySelector('form.undo');

/** Return the form that undoes the reader's last decision on this page. */
export function findDecidedUndo() {
  const card = document.getElementById(decidedId);
  return card ? findUndo(card) : null;
}

/** Return why the reader's last decision on this page cannot be undone. */
export function explainNoUndo() {
  const card = document.getElementById(decidedId);
  if (!card) return 'Nothing to undo.';
  return card.dataset.state === 'output-denied' ? 'A denial cannot be undone.'
    : 'Too late to undo: the agent has the answer.';
}

/**
 * @param {HTMLElement} toast
 * @param {Element} card
 */
function addUndo(toast, card) {
  const button = Object.assign(document.createElement('button'), {type: 'button', className: 'btn small'});
  button.append('Undo ', Object.assign(document.createElement('kbd'), {textContent: 'z'}));
  button.addEventListener('click', () => { findUndo(card)?.requestSubmit(); hideToast(); });
  toast.append(button);
  watcher = new MutationObserver(() => { if (!findUndo(card)) hideToast(); });
  watcher.observe(card, {subtree: true, childList: true, attributeFilter: ['hidden', 'data-rev']});
}

/**
 * Say what the reader has decided.
 * @param {HTMLElement} card
 * @param {string} word - "Approved", "Denied"
 */
export function showDecision(card, word) {
  const toast = findToast();
  clearTimeout(hideTimer);
  watcher?.disconnect();
  toast.removeAttribute('data-failure');
  toast.dataset.card = decidedId = card.id;
  const about = Object.assign(document.createElement('span'), {className: 'cut'});
  const readPart = (/** @type {string} */ part) => card.querySelector(part)?.textContent || '';
  about.append(
    Object.assign(document.createElement('b'), {textContent: word}), ' ',
    Object.assign(document.createElement('span'), {textContent: readPart('.sum') || readPart('.tool')}),
  );
  toast.replaceChildren(about);
  toast.hidden = false;
  if (findUndo(card)) addUndo(toast, card);
  hideTimer = setTimeout(hideToast, findUndo(card) ? UNDO_SHOWN_FOR : SHOWN_FOR);
}

/**
 * Show a short text.
 * @param {string} text
 * @param {boolean} [isFailure] - whether it says that a press had no effect
 */
export function showNote(text, isFailure = false) {
  hideToast();
  const toast = findToast();
  toast.toggleAttribute('data-failure', isFailure);
  delete toast.dataset.card;
  toast.textContent = text;
  toast.hidden = false;
  hideTimer = setTimeout(hideToast, SHOWN_FOR);
}
