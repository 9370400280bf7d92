// The timeline: dragging over it with the mouse opens that part of the time. Links do the same without a mouse.
// A part that reaches the right end of a picture that moves follows the clock, until its switch is off.
const SVG = 'http://www.w3.org/2000/svg';
const SHORTEST = 8;  // pixels; less is a press
const SHORTEST_TIME = 20;  // milliseconds
const AT_END = 6;  // from the picture's right end; nearer is now

/**
 * @typedef {{svg: SVGSVGElement, scale: {left: number, right: number, start: number, end: number}, from: number,
 *   to: number, mark: Element | null}} Drag
 */

/** @type {Drag | null} the current drag, with the scale of its start: that of a live picture moves */
let drag = null;
let isClickDropped = false;

/** @param {Element} target */
const findPicture = target => /** @type {SVGSVGElement | null} */ (target.closest('svg[data-zoom]'));

/**
 * Return the pointer's place in the picture, between its first and last moment.
 * @param {SVGSVGElement} svg
 * @param {number} clientX
 */
function locate(svg, clientX) {
  const box = svg.getBoundingClientRect();
  const x = (clientX - box.left) / box.width * svg.viewBox.baseVal.width;
  return Math.min(Math.max(x, Number(svg.dataset.left)), Number(svg.dataset.right));
}

/** Draw what is chosen so far; a live picture may have lost the mark of before. */
function drawMark() {
  if (!drag.mark?.isConnected) {
    drag.mark = document.createElementNS(SVG, 'rect');
    drag.mark.setAttribute('class', 'chosen');
    drag.svg.append(drag.mark);
  }
  const x = Math.min(drag.from, drag.to), width = Math.abs(drag.to - drag.from);
  const place = {x, y: 24, width, height: Number(drag.svg.dataset.bottom) - 24};
  for (const [name, value] of Object.entries(place)) drag.mark.setAttribute(name, String(value));
}

function endDrag() {
  drag?.mark?.remove();
  drag = null;
}

/** Open the chosen part. */
function openPart() {
  const {left, right, start, end} = drag.scale;
  const moments = [drag.from, drag.to].sort((one, other) => one - other)
    .map(x => Math.round(start + (x - left) * (end - start) / (right - left)));
  const url = new URL(location.href);
  for (const name of ['around', 'start', 'end', 'latest']) url.searchParams.delete(name);
  if ('moving' in drag.svg.dataset && Math.max(drag.from, drag.to) > right - AT_END) {
    url.searchParams.set('latest', String(Math.max(Math.round(end - moments[0]), SHORTEST_TIME)));
  } else {
    url.searchParams.set('start', String(moments[0]));
    url.searchParams.set('end', String(Math.max(moments[1], moments[0] + SHORTEST_TIME)));
  }
  location.assign(url);
}

/** @param {PointerEvent} event */
function handleDown(event) {
  const svg = findPicture(/** @type {Element} */ (event.target));
  isClickDropped = false;
  if (!svg || event.pointerType !== 'mouse' || event.button !== 0) return;
  const x = locate(svg, event.clientX);
  const {left, right, start, end} = svg.dataset;
  const scale = {left: Number(left), right: Number(right), start: Number(start), end: Number(end)};
  drag = {svg, scale, from: x, to: x, mark: null};
}

/** @param {PointerEvent} event */
function handleMove(event) {
  if (!drag) return;
  if (!drag.svg.isConnected) { endDrag(); return; }
  drag.to = locate(drag.svg, event.clientX);
  if (drag.mark || Math.abs(drag.to - drag.from) >= SHORTEST) drawMark();
}

function handleUp() {
  if (!drag) return;
  isClickDropped = Boolean(drag.mark);  // the press was no press of the bar below
  if (drag.mark && Math.abs(drag.to - drag.from) >= SHORTEST) openPart();
  endDrag();
}

/** Let the reader zoom by dragging; Escape gives a drag up, else it leads back to the whole run. */
export function startZoom() {
  if (!document.getElementById('timeline')) return;
  document.addEventListener('pointerdown', handleDown);
  document.addEventListener('pointermove', handleMove);
  document.addEventListener('pointerup', handleUp);
  document.addEventListener('pointercancel', endDrag);
  document.addEventListener('change', event => {
    const {leadsTo} = /** @type {HTMLElement} */ (event.target).dataset;
    if (leadsTo) location.assign(leadsTo);
  });
  document.addEventListener('dragstart', event => {
    if (findPicture(/** @type {Element} */ (event.target))) event.preventDefault();  // bars are links
  });
  document.addEventListener('click', event => {
    if (isClickDropped && findPicture(/** @type {Element} */ (event.target))) event.preventDefault();
    isClickDropped = false;
  }, true);
  document.addEventListener('keydown', event => {
    if (event.key !== 'Escape' || event.defaultPrevented) return;
    if (drag) {
      isClickDropped = Boolean(drag.mark);
      endDrag();
    } else if (!document.querySelector('dialog[open]') && !document.activeElement.matches('input, select, textarea')) {
      /** @type {HTMLElement | null} */ (document.querySelector('[data-whole]'))?.click();
    }
  });
}
