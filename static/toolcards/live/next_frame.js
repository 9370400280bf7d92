// Work that must not share a frame with what has just come into the page: a browser sees that what comes at the end only
// scrolls if nothing else changes in that frame.

/** @type {Set<() => void>} */
const scheduled = new Set();

/**
 * Do the work once, after the frame that is now being prepared; at once if the page is hidden, which draws none.
 * @param {() => void} work
 */
export function doAfterFrame(work) {
  if (document.hidden) { work(); return; }
  if (scheduled.has(work)) return;
  scheduled.add(work);
  requestAnimationFrame(() => setTimeout(() => {
    scheduled.delete(work);
    work();
  }));
}
