// Where the reader's mouse is. `:hover` does not tell: it also stays on what a finger touched last, and sometimes on
// what changed under the mouse.

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
