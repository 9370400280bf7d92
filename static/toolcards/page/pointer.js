// Where the reader's mouse is. `:hover` also stays on what a finger touched last, and at times on what changed under the
// mouse, so it does not say that the reader is there.

/** @type {Element | null} what is under the mouse or pen */
let pointed = null;

/**
 * Return whether the mouse is on the element.
 * @param {Element | null | undefined} element
 */
export const isPointed = element => Boolean(pointed?.isConnected && element?.contains(pointed));

/** @param {PointerEvent} event */
function notePointer(event) {
  pointed = event.pointerType === 'touch' ? null : /** @type {Element} */ (event.target);
}

/** Follow the mouse. */
export function startPointer() {
  for (const type of ['pointermove', 'pointerover']) {
    document.addEventListener(type, event => notePointer(/** @type {PointerEvent} */ (event)), {passive: true});
  }
  document.documentElement.addEventListener('pointerleave', () => { pointed = null; });
}
