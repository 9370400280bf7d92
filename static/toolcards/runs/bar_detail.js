// The call or the agent of the timeline under the pointer, or in focus, in one line at the edge of the window.
import {writeText} from '../live/clock.js';

/** @type {Element | null} the part that the line is about */
let part = null;

/** Write the detail as it is now: the picture may have changed since, or no longer have the part. */
function writeDetail() {
  const line = document.getElementById('bar-detail');
  if (!part?.isConnected) part = null;
  const text = part?.getAttribute('aria-label') ?? part?.getAttribute('data-detail') ?? '';
  line.hidden = !text;
  if (text) writeText(line, text);
}

/** @param {Event} event */
function showDetail(event) {
  part = /** @type {Element} */ (event.target).closest?.('.timeline a[aria-label], .timeline [data-detail]');
  writeDetail();
}

/** Show the details of the timeline. */
export function startBarDetail() {
  if (!document.getElementById('bar-detail')) return;
  document.addEventListener('pointerover', showDetail);
  document.addEventListener('focusin', showDetail);
  document.addEventListener('htmx:after:swap', writeDetail);
}
