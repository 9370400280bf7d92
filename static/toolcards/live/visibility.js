// Which places of a list are on screen, known without asking the layout.

/** @type {WeakSet<Element>} */
const placesOffScreen = new WeakSet();
/** @type {WeakSet<Element>} */
const placesDrawn = new WeakSet();
/** @type {WeakMap<Element, number>} */
const heights = new WeakMap();
/** @type {Set<() => void>} */
const listeners = new Set();

const observer = new IntersectionObserver(entries => {
  for (const {target, isIntersecting} of entries) {
    placesDrawn.add(target);
    if (isIntersecting) placesOffScreen.delete(target);
    else placesOffScreen.add(target);
  }
  for (const listener of listeners) listener();
});

const sizes = new ResizeObserver(entries => {
  for (const {target, borderBoxSize} of entries) heights.set(target, borderBoxSize[0].blockSize);
});

/** @param {Element} place */
function watchPlace(place) {
  observer.observe(place);
  sizes.observe(place);
}

/**
 * Return how high the place was when it was drawn last, in pixels.
 * @param {Element} place
 */
export const findHeight = place => heights.get(place) ?? 0;

/**
 * Return whether a place may be on screen; one that was never looked at may be.
 * @param {Element} place
 */
export const isOnScreen = place => !document.hidden && !placesOffScreen.has(place);

/**
 * Return whether a place has been drawn at least once.
 * @param {Element} place
 */
export const wasDrawn = place => placesDrawn.has(place);

/**
 * Look at the places of a list from now on, those that come later too.
 * @param {Element} list
 * @param {() => void} [listener] - called when one of them comes into or goes out of sight
 */
export function watchSight(list, listener) {
  if (listener) listeners.add(listener);
  for (const place of list.children) watchPlace(place);
  new MutationObserver(changes => {
    for (const change of changes) {
      for (const node of change.addedNodes) if (node instanceof Element) watchPlace(node);
      for (const node of change.removedNodes) {
        if (!(node instanceof Element)) continue;
        observer.unobserve(node);
        sizes.unobserve(node);
      }
    }
  }).observe(list, {childList: true});
}
