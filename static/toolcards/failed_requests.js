// Says so, for eyes and ears, when a press had no effect: the server was away, failed, or answered with something else.
import {alert} from './announce.js';
import {showNote} from './toast.js';

/**
 * Say that what the reader did has failed.
 * @param {string} text
 */
export function sayFailure(text) {
  showNote(text);
  alert(text);
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

/** Listen for requests of the page that fail. */
export function startFailedRequests() {
  document.addEventListener('htmx:error', event => handleError(/** @type {CustomEvent} */ (event)));
  document.addEventListener('htmx:response:error', event => handleAnswer(/** @type {CustomEvent} */ (event)));
}
