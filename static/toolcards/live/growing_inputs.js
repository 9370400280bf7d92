// Inputs that are being written: the server sends the new piece of a text, and the page adds it to the card.
import {flash} from './card_lists.js';
import {isOutdated} from './card_order.js';

const MOST_SHOWN = 1_200;  // characters at the end of the text that a card shows
const LOW_SURROGATE = /^[\uDC00-\uDFFF]/;

/** @type {Set<string>} ids of the cards that are on their way because a piece did not fit */
const loadingCards = new Set();

/**
 * Get the whole card, because the page has missed a piece.
 * @param {HTMLElement} card
 */
async function loadCard(card) {
  if (loadingCards.has(card.id)) return;
  loadingCards.add(card.id);
  const link = card.querySelector('.permalink');
  try {
    await htmx.ajax('GET', `${link.getAttribute('href')}card/`, {target: '#board', swap: 'place'});
  } finally {
    loadingCards.delete(card.id);
  }
}

/**
 * Keep only the end of the text, and show that it has a beginning.
 * @param {Element} text
 */
function cutStart(text) {
  const mark = text.querySelector(':scope > .muted');
  mark?.remove();
  let excess = text.textContent.length - MOST_SHOWN;
  if (!mark && excess <= 0) return;
  while (excess > 0) {
    const first = text.firstChild;
    const {length} = first.textContent;
    if (length > excess && first instanceof Text) first.data = first.data.slice(excess).replace(LOW_SURROGATE, '');
    else first.remove();
    excess -= length;
  }
  text.prepend(mark || Object.assign(document.createElement('span'), {className: 'muted', textContent: '…'}));
}

/**
 * Leave out the start of a piece that the page has already; return whether the rest follows its text.
 * @param {HTMLElement} piece
 * @param {number} size - characters of the text on the page
 */
function skipShown(piece, size) {
  const overlap = size - Number(piece.dataset.from);
  if (overlap > 0 && !piece.firstElementChild) piece.textContent = [...piece.textContent].slice(overlap).join('');
  return overlap === 0 || (overlap > 0 && size <= Number(piece.dataset.size) && !piece.firstElementChild);
}

/**
 * Add a piece to the card on the page. One that follows another text than the page shows brings the whole card.
 * @param {HTMLElement} piece
 */
export function growInput(piece) {
  const card = document.getElementById(piece.id);
  if (!card || isOutdated(card.dataset, piece.dataset, false)) return null;
  const writing = /** @type {HTMLElement | null} */ (card.querySelector('.writing[data-size]'));
  if (!card.hasAttribute('data-line') && !(writing && skipShown(piece, Number(writing.dataset.size)))) {
    loadCard(card);
    return null;
  }
  for (const name of ['state', 'rev', 'seq']) card.dataset[name] = piece.dataset[name];
  if (!writing) return null;
  const text = writing.querySelector('.text');
  text.querySelector('.caret').before(...piece.childNodes);
  cutStart(text);
  writing.dataset.size = piece.dataset.size;
  writing.querySelector('.size').textContent = `${piece.dataset.size} characters so far`;
  flash(card);
  return card;
}
