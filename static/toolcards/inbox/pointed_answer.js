// Points at the answer that a person chose in a notification. It presses nothing: they see the call first.
import {say} from '../page/announce.js';
import {showNote} from '../page/toast.js';

const ANSWERS = /** @type {Record<string, string>} */ ({approve: 'Approve', deny: 'Deny'});

/** @param {unknown} answer */
function pointAt(answer) {
  if (typeof answer !== 'string' || !Object.hasOwn(ANSWERS, answer)) return;
  /** @type {HTMLButtonElement | null} */
  const button = document.querySelector(`article[data-waiting] button[name=decision][value=${answer}]`);
  if (!button) return;
  button.focus();
  button.scrollIntoView({block: 'nearest'});
  const text = `Check the call, then press ${ANSWERS[answer]}`;
  showNote(text);
  say(text);
}

/** Follow the page's address, and the service worker where the page was open already. */
export function startPointedAnswer() {
  const address = new URL(location.href);
  const answer = address.searchParams.get('answer');
  if (answer !== null && address.pathname.startsWith('/approvals/')) {
    address.searchParams.delete('answer');
    history.replaceState(history.state, '', address);
    pointAt(answer);
  }
  navigator.serviceWorker?.addEventListener('message', event => pointAt(event.data?.answer));
}
