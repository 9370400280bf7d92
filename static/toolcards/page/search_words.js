// Suggests the last word of a search. Browsers complete whole fields, so suggestions begin with the words before it.

/**
 * Return the suggestions for what the field holds.
 *
 * @param {string} text
 * @param {string[]} words
 */
export function listSuggestions(text, words) {
  const before = text.slice(0, text.lastIndexOf(' ') + 1);
  const last = text.slice(before.length).replace(/^-/, '').toLowerCase();
  const sign = text.slice(before.length).startsWith('-') ? '-' : '';
  return words.filter(word => word.toLowerCase().startsWith(last)).slice(0, 12).map(word => before + sign + word);
}

/** Start for each field that has words. */
export function startSearchWords() {
  for (const field of /** @type {NodeListOf<HTMLInputElement>} */ (document.querySelectorAll('input[data-words]'))) {
    const list = document.getElementById(field.dataset.words || '');
    if (!list) continue;
    const words = [...list.querySelectorAll('option')].map(option => option.value);
    const suggest = () => {
      list.replaceChildren(...listSuggestions(field.value, words).map(word => new Option('', word)));
    };
    field.addEventListener('input', suggest);
    suggest();
    field.setAttribute('list', list.id);
  }
}
