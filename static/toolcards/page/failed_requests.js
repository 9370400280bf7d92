// Says so, for eyes and ears, when a press had no effect: the server was away, failed, or answered with something else.
import {alert} from './announce.js';
import {signInAgain} from '../live/connection.js';
import {showNote} from './toast.js';

/** @param {string} text */
function sayFailure(text) {
  showNote(text, true);
  alert(text);
}

/**
 * Handle an answer that has nothing for the page: most likely the sign-in page.
 * @param {boolean} isSignIn
 */
export function handleStrangeAnswer(isSignIn) {
  if (isSignIn) signInAgain();
  else sayFailure('The server sent an unexpected answer. Reload the page.');
}

/**
 * Return whether the page asked by itself, and asks again.
 * @param {CustomEvent} event
 */
const isPolling = event => Boolean(/** @type {Element} */ (event.target).closest?.('[hx-trigger^=every]'));

/** @param {CustomEvent} event */
function handleError(event) {
  if (!isPolling(event)) sayFailure('The server cannot be reached. Try again.');
}

/** @param {CustomEvent} event */
function handleAnswer(event) {
  const status = Number(event.detail?.ctx?.response?.status);
  if (status >= 500 && !isPolling(event)) sayFailure(`The server could not answer (${status}). Try again.`);
}

/**
 * Check the answer to a form whose answer names its own places, as those for several calls do: nothing else is shown.
 * @param {CustomEvent} event
 */
function checkParts(event) {
  const {swap, text, response} = event.detail?.ctx ?? {};
  if (swap !== 'none' || response.status >= 500 || text.includes('<hx-partial')) return;
  handleStrangeAnswer(text.includes('name="password"'));
}

/** Listen for requests of the page that fail. */
export function startFailedRequests() {
  document.addEventListener('htmx:error', event => handleError(/** @type {CustomEvent} */ (event)));
  document.addEventListener('htmx:after:request', event => checkParts(/** @type {CustomEvent} */ (event)));
  document.addEventListener('htmx:response:error', event => handleAnswer(/** @type {CustomEvent} */ (event)));
}
