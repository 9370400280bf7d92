// The switch "Follow": new calls show at once, and the page of a run goes to its newest call.
import {say} from '../page/announce.js';
import {releaseHeldCards} from '../live/held_cards.js';
import {readPreference, storePreference} from '../page/preferences.js';

let isOn = false;

/** Return whether the reader follows what is new. */
export const isFollowing = () => isOn;

/** Go to the newest call, on the page of a run. */
const goToNewest = () => { scrollTo({top: Number.MAX_SAFE_INTEGER}); };

/** Let the switch work, where the page has one. */
export function startFollow() {
  const box = /** @type {HTMLInputElement | null} */ (document.querySelector('[data-follow]'));
  const list = document.getElementById('board');
  if (!box || !list) return;
  const name = `follow.${list.dataset.board}`;
  const isRun = list.dataset.board === 'run';
  const update = () => {
    isOn = box.checked;
    list.toggleAttribute('data-following', isOn);
    if (!isOn) return;
    releaseHeldCards();
    if (isRun) goToNewest();
  };
  box.checked = readPreference(name) === 'on';
  update();
  box.addEventListener('change', () => {
    storePreference(name, box.checked ? 'on' : '');
    say(box.checked ? 'Following new calls.' : 'No longer following.');
    update();
  });
  // After the layout of the frame in which the list grows and before it is drawn: what the reader sees only scrolls.
  if (isRun) new ResizeObserver(() => { if (isOn) goToNewest(); }).observe(list);
}
