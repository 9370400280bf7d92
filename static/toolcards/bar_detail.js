// The call or the agent of the timeline under the pointer, or in focus, in one line at the edge of the window.
import {writeText} from './clock.js';

/** @param {Event} event */
function showDetail(event) {
  const line = document.getElementById('bar-detail');
  const part = /** @type {Element} */ (event.target).closest?.('.timeline a[aria-label], .timeline [data-detail]');
  const text = part?.getAttribute('aria-label') ?? part?.getAttribute('data-detail') ?? '';
  line.hidden = !text;
  if (text) writeText(line, text);
}

/** Show the details of the timeline. */
export function startBarDetail() {
  if (!document.getElementById('bar-detail')) return;
  document.addEventListener('pointerover', showDetail);
  document.addEventListener('focusin', showDetail);
}
