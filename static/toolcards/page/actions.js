// What the buttons of every page do: theme, density and the list of shortcuts; and forms that send themselves.
import {say} from './announce.js';
import {readPreference, storePreference} from './preferences.js';

const THEMES = ['', 'light', 'dark'];

/** Switch to the next theme: as the system says, light, dark. */
export function switchTheme() {
  const root = document.documentElement;
  const next = THEMES[(THEMES.indexOf(root.dataset.theme || '') + 1) % THEMES.length];
  if (next) root.dataset.theme = next;
  else delete root.dataset.theme;
  storePreference('theme', next);
  say(`Theme: ${next || 'same as the system'}`);
}

function switchDensity() {
  const root = document.documentElement;
  const isCompact = root.dataset.density !== 'compact';
  if (isCompact) root.dataset.density = 'compact';
  else delete root.dataset.density;
  storePreference('density', isCompact ? 'compact' : '');
  say(isCompact ? 'Compact' : 'Comfortable');
}

/** Show the list of shortcuts. */
export function showHelp() {
  /** @type {HTMLDialogElement} */ (document.getElementById('help')).showModal();
}

/** @type {Record<string, () => void>} */
const ACTIONS = {theme: switchTheme, density: switchDensity, help: showHelp};

/** Let the buttons work. */
export function startActions() {
  document.addEventListener('click', event => {
    const button = /** @type {HTMLElement | null} */ (/** @type {Element} */ (event.target).closest('[data-do]'));
    if (button) ACTIONS[button.dataset.do]?.();
  });
  document.addEventListener('change', event => {
    const field = /** @type {HTMLInputElement} */ (event.target);
    if (field.matches('select[data-submit]')) field.form.requestSubmit();
    if (field.matches('[data-setting=keys]')) storePreference('keys', field.checked ? '' : 'off');
  });
  const box = /** @type {HTMLInputElement | null} */ (document.querySelector('[data-setting=keys]'));
  if (box) box.checked = readPreference('keys') !== 'off';
}
