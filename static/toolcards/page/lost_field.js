// A field can go while the reader types in it: its call was answered elsewhere or has expired. What they type on was
// meant for it and is no shortcut. Shortcuts work again once the reader presses Escape or Tab, or goes somewhere.
import {say} from './announce.js';
import {showNote} from './toast.js';

export const FIELDS = 'input:not([name=pick], [data-pick]), textarea, select, [contenteditable]';

/** @type {Element | null} the field that the reader went to, until they leave it by themselves */
let field = null;
let isTold = false;

/** Return whether the field that the reader types in has lost the focus without their doing. */
export const hasLostField = () => Boolean(field) && (document.activeElement || document.body) === document.body;

/** Say why a key did nothing, once. */
export function explainLostField() {
  if (isTold) return;
  isTold = true;
  const text = 'The field you typed in is gone. Press Esc to use shortcuts again.';
  showNote(text);
  say(text);
}

/** @param {EventTarget | null} target */
function enter(target) {
  field = target instanceof Element ? target.closest(FIELDS) : null;
  isTold = false;
}

/** Notice where the reader types. */
export function startLostField() {
  document.addEventListener('focusin', event => enter(event.target));
  document.addEventListener('pointerdown', event => enter(event.target), true);
  document.addEventListener('keydown', event => { if (['Escape', 'Tab'].includes(event.key)) enter(null); }, true);
}
