// Delays work to the frame after a card comes into the page. When a card comes at the end, browsers only scroll, unless
// something else changes in the same frame.

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
