// The table of runs: known rows change in place, and new ones wait behind a button, so that no row moves.

/** @type {Map<string, HTMLElement>} rows that wait, the newest first */
let heldRows = new Map();

/** @param {Element} row */
const readNumber = row => Number(row.id.replace('run-', ''));

/** @param {HTMLElement} body */
function showButton(body) {
  let button = /** @type {HTMLButtonElement | null} */ (document.querySelector('button[data-held]'));
  if (!heldRows.size) { button?.remove(); return; }
  if (!button) {
    button = Object.assign(document.createElement('button'), {type: 'button', className: 'btn pri'});
    button.addEventListener('click', releaseRows);
    body.closest('.table').before(button);
  }
  button.dataset.held = String(heldRows.size);
  button.textContent = heldRows.size === 1 ? '1 new run' : `${heldRows.size} new runs`;
}

/**
 * Take in the rows of the first page as they are now.
 * @param {HTMLElement} body
 * @param {DocumentFragment} fragment
 * @param {(present: Element, fragment: DocumentFragment) => void} morph
 */
export function renewRows(body, fragment, morph) {
  const rows = [...fragment.querySelectorAll('tr[id]')].map(row => /** @type {HTMLElement} */ (row));
  const ids = new Set(rows.map(row => row.id));
  const oldest = Math.min(...rows.map(readNumber));
  heldRows = new Map(rows.filter(row => !document.getElementById(row.id)).map(row => [row.id, row]));
  for (const row of rows) {
    const present = document.getElementById(row.id);
    if (!present) continue;
    const next = document.createDocumentFragment();
    next.append(row);
    morph(present, next);
  }
  for (const row of [...body.children]) {
    const isGone = !ids.has(row.id);
    if (isGone && readNumber(row) < oldest) row.remove();  // past the end of the page: nothing is below it
    else row.classList.toggle('gone', isGone);  // the filter no longer finds it
  }
  showButton(body);
}

/** Put the new rows into the table; return whether there were any. */
export function releaseRows() {
  const body = document.getElementById('runs-body');
  if (!body || !heldRows.size) return false;
  for (const row of [...body.querySelectorAll('.gone')]) row.remove();
  const first = heldRows.keys().next().value;
  for (const row of heldRows.values()) {
    const next = [...body.children].find(other => readNumber(other) < readNumber(row));
    body.insertBefore(row, next || null);
    htmx.process(row);
  }
  heldRows = new Map();
  showButton(body);
  /** @type {HTMLElement | null} */ (document.getElementById(first)?.querySelector('a'))?.focus();
  return true;
}
