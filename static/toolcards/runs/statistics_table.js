// The tables of tools and agents: numbers change in place. New rows and the order change when the page is loaded again.

/** @type {Set<string>} ids of rows that the page does not have */
const newRows = new Set();

/** Load the page with the new rows; return whether there are any. */
export function loadNewRows() {
  if (!newRows.size) return false;
  location.reload();
  return true;
}

function showButton() {
  if (!newRows.size) return;
  let button = /** @type {HTMLButtonElement | null} */ (document.querySelector('button[data-held]'));
  if (!button) {
    button = Object.assign(document.createElement('button'), {type: 'button', className: 'btn pri'});
    button.addEventListener('click', loadNewRows);
    document.getElementById('statistics-body').closest('.page > *').before(button);
  }
  button.dataset.held = String(newRows.size);
  button.textContent = newRows.size === 1 ? '1 new row' : `${newRows.size} new rows`;
}

/**
 * Take in the numbers of rows as they are now.
 * @param {DocumentFragment} fragment
 */
export function renewNumbers(fragment) {
  for (const row of fragment.querySelectorAll('tr[id]')) {
    const present = document.getElementById(row.id);
    if (!present && !row.hasAttribute('data-empty')) newRows.add(row.id);
    if (!present) continue;
    const cells = present.querySelectorAll('td');
    row.querySelectorAll('td').forEach((cell, index) => {
      if (!cell.isEqualNode(cells[index])) cells[index].replaceChildren(...cell.childNodes);
    });
  }
  showButton();
}
