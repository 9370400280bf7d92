// What the reader was typing when someone else answered the call, or it ended: it stays on the page, with the focus.
import {say} from '../page/announce.js';
import {hasVoted} from './own_votes.js';

const NOTICE = 'This call no longer waits for an answer. What you typed was not sent:';

/** @typedef {{text: string, isFocused: boolean, start: number, end: number}} Typed */

/** @type {Map<string, Typed[]>} what was sent with an own vote, whose answer may be that it came too late */
const sentTexts = new Map();

/**
 * Return what the reader has typed into the fields of the card.
 * @param {Element} card
 * @returns {Typed[]}
 */
export function readTyped(card) {
  /** @type {NodeListOf<HTMLInputElement>} */
  const fields = card.querySelectorAll('form.acts :is(input[name=reason], textarea)');
  return [...fields].filter(field => field.value !== field.defaultValue).map(field => ({
    text: field.value, isFocused: field === document.activeElement,
    start: field.selectionStart ?? 0, end: field.selectionEnd ?? 0,
  }));
}

/**
 * Put what was typed into a field of its own if the card has lost its fields, unless it was sent and counted.
 * @param {Element} card
 * @param {Typed[]} typed
 */
export function keepTyped(card, typed) {
  if (card.querySelector('form.acts')) return;
  const texts = typed.length ? typed : sentTexts.get(card.id) ?? [];
  sentTexts.delete(card.id);
  if (!texts.length) return;
  if (hasVoted(card.id) && !card.querySelector('[data-told]')) { sentTexts.set(card.id, texts); return; }
  const part = Object.assign(document.createElement('section'), {className: 'kept-text panel in'});
  const close = Object.assign(document.createElement('button'), {
    type: 'button', className: 'btn small', textContent: 'Discard',
  });
  const goToCard = () => { /** @type {HTMLElement} */ (card).focus(); };
  close.addEventListener('click', () => { part.remove(); goToCard(); });
  part.addEventListener('keydown', event => { if (event.key === 'Escape') goToCard(); });
  part.append(Object.assign(document.createElement('p'), {textContent: NOTICE}));
  for (const {text} of texts) {
    const field = Object.assign(document.createElement('textarea'), {value: text, rows: 2});
    field.setAttribute('aria-label', 'What you typed');
    part.append(field);
  }
  part.append(close);
  if (card.parentElement.matches('li')) card.after(part);
  else card.before(part);
  const at = texts.findIndex(({isFocused}) => isFocused);
  const field = part.querySelectorAll('textarea')[at];
  field?.focus({preventScroll: true});
  field?.setSelectionRange(texts[at].start, texts[at].end);
  say(NOTICE);
}
