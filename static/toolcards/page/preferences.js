// The settings of this browser, in its local storage, which private windows may refuse.

/**
 * Store a setting; an empty value removes it.
 * @param {string} name
 * @param {string} value
 */
export function storePreference(name, value) {
  try {
    if (value) localStorage.setItem(`toolcards.${name}`, value);
    else localStorage.removeItem(`toolcards.${name}`);
  } catch { /* the setting lasts as long as the page */ }
}

/**
 * Return a setting, or null.
 * @param {string} name
 * @returns {string | null}
 */
export function readPreference(name) {
  try {
    return localStorage.getItem(`toolcards.${name}`);
  } catch {
    return null;
  }
}
