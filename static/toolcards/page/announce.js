// What a screen reader announces: politely, or at once.

/**
 * Announce a text politely; the same text twice is announced twice.
 * @param {string} text
 */
export function say(text) {
  const region = document.getElementById('say');
  if (!region) return;
  region.textContent = '';
  setTimeout(() => { region.textContent = text; }, 50);
}

/**
 * Announce a text at once, over whatever is being read out.
 * @param {string} text
 */
export function alert(text) {
  const region = document.getElementById('alert');
  if (region) region.textContent = text;
}
