// One line of the inbox's list: risk, what the call does, whose it is, and its age or its outcome.
import {findTicket, getTicket, setTicket} from './selected_calls.js';

const SVG = 'http://www.w3.org/2000/svg';
const LEVELS = ['low', 'medium', 'high'];

/** @type {(card: Element, part: string) => string} */
const readPart = (card, part) => card.querySelector(part)?.textContent.trim() || '';

/** @type {(tag: string, className: string, textContent?: string) => HTMLElement} */
const make = (tag, className, textContent = '') => Object.assign(document.createElement(tag), {className, textContent});

/**
 * Draw one to three bars, as the risk is.
 * @param {string} level
 */
function drawRisk(level) {
  const picture = document.createElementNS(SVG, 'svg');
  picture.setAttribute('viewBox', '0 0 14 12');
  picture.setAttribute('aria-hidden', 'true');
  LEVELS.forEach((_, at) => {
    const bar = document.createElementNS(SVG, 'rect');
    const height = 4 + 4 * at;
    const place = {x: 5 * at, y: 12 - height, width: 4, height, rx: 1, class: at <= LEVELS.indexOf(level) ? 'on' : ''};
    for (const [name, value] of Object.entries(place)) bar.setAttribute(name, String(value));
    picture.append(bar);
  });
  return picture;
}

/** @param {HTMLElement} card */
function makeRisk(card) {
  const level = card.dataset.risk || 'medium';
  const mark = make('span', 'risk');
  mark.dataset.risk = level;
  mark.title = `${level[0].toUpperCase()}${level.slice(1)} risk`;
  mark.append(drawRisk(level), make('span', 'sr', `${mark.title}: `));
  return mark;
}

/** @param {HTMLElement} card */
function makeOutcome(card) {
  const mark = make('span', 'risk');
  const icon = card.querySelector('.badge.st .icon')?.cloneNode(true);
  mark.dataset.st = card.dataset.st;
  if (icon) mark.append(icon);
  return mark;
}

/** @param {HTMLElement} card */
function makeEnd(card) {
  if (card.hasAttribute('data-waiting')) {
    const age = make('time', 'age');
    age.dataset.since = String(Number(card.dataset.requested) / 1000);
    return age;
  }
  const minute = readPart(card.parentElement, ':scope > .departed-at');
  return make('span', 'age outcome', [readPart(card, '.badge.st'), minute].filter(Boolean).join(' '));
}

/**
 * Return a line for the card, empty until it is updated.
 * @param {HTMLElement} card
 */
export function makeLine(card) {
  const line = make('li', 'line');
  const box = /** @type {HTMLInputElement} */ (make('input', 'needs-vote'));
  Object.assign(box, {type: 'checkbox', autocomplete: 'off'});
  box.dataset.pick = card.id;
  const button = make('button', 'queued');
  button.setAttribute('type', 'button');
  button.dataset.card = card.id;
  line.append(box, button);
  return line;
}

/**
 * Write into the line what the card says now; return whether anything was written.
 * @param {HTMLElement} line
 * @param {HTMLElement} card
 */
export function updateLine(line, card) {
  const isWaiting = card.hasAttribute('data-waiting');
  const minute = card.parentElement.querySelector(':scope > .departed-at') ? 'departed' : '';
  const version = [card.dataset.rev, card.dataset.state, isWaiting, minute].join(' ');
  if (line.dataset.version === version) return false;
  line.dataset.version = version;
  line.classList.toggle('answered', !isWaiting);
  const [box, button] = /** @type {[HTMLInputElement, HTMLElement]} */ (/** @type {unknown} */ (line.children));
  const tool = readPart(card, '.tool');
  const summary = readPart(card, '.sum');
  box.hidden = !findTicket(card);
  box.setAttribute('aria-label', `Select ${summary} ${tool}`.slice(0, 160));
  const about = make('span', 'about');
  about.append(make('span', 'sum', summary), ' ', make('code', 'tool', tool));
  about.title = `${summary} ${tool}`;
  const agent = readPart(card, '.meta .path') || readPart(card, '.meta .runlink');
  const mark = isWaiting ? makeRisk(card) : makeOutcome(card);
  button.replaceChildren(mark, about, make('span', 'agent', agent), makeEnd(card));
  return true;
}

/**
 * Tick the box of the line as the card is selected for a batch.
 * @param {HTMLElement} line
 */
export function updateBox(line) {
  const box = /** @type {HTMLInputElement} */ (line.firstElementChild);
  box.checked = Boolean(getTicket(box.dataset.pick));
}

/**
 * Select or deselect what the reader ticks in the list.
 * @param {HTMLElement} list
 */
export function watchBoxes(list) {
  list.addEventListener('change', event => {
    const box = /** @type {HTMLInputElement} */ (event.target);
    if (!box.dataset.pick) return;
    setTicket(box.dataset.pick, box.checked ? findTicket(document.getElementById(box.dataset.pick)) : '');
  });
}
