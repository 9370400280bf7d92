// How many calls wait: in the title, in the icon, and announced when the first one or a risky one comes.
import {alert} from '../page/announce.js';

let lastCount = 0;
let lastNewest = '';

/** @param {HTMLElement} badge */
function showCount(badge) {
  const count = Number(badge.dataset.waitingCount);
  const plainTitle = document.title.replace(/^\(\d+\) /, '');
  document.title = count ? `(${count}) ${plainTitle}` : plainTitle;
  const icon = /** @type {HTMLLinkElement} */ (document.querySelector('link[rel=icon]'));
  icon.dataset.plainIcon ||= icon.getAttribute('href');
  const href = count ? icon.dataset.waitingIcon : icon.dataset.plainIcon;
  if (icon.getAttribute('href') !== href) icon.setAttribute('href', href);
}

/** @param {HTMLElement} badge */
function announceCount(badge) {
  const count = Number(badge.dataset.waitingCount);
  const newest = badge.dataset.newest;
  const isRisky = newest && newest !== lastNewest && count >= lastCount && badge.dataset.risk === 'high';
  if ((lastCount === 0 && count > 0) || isRisky) alert(badge.dataset.says);
  if (count === 0) alert('');
  lastCount = count;
  lastNewest = newest;
}

/** Follow the count of waiting calls. */
export function startWaitingCount() {
  const badge = document.getElementById('waiting-count');
  if (!badge) return;
  lastCount = Number(badge.dataset.waitingCount);
  lastNewest = badge.dataset.newest;
  const update = () => { showCount(badge); announceCount(badge); };
  new MutationObserver(update).observe(badge, {attributeFilter: ['data-waiting-count', 'data-newest']});
  update();
}
