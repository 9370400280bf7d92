// Links to texts that a press copies, and buttons that copy a text of the page. Without a clipboard (plain http, old
// browsers) the link opens the text, and the button selects it.
import {say} from './announce.js';
import {showNote} from './toast.js';

/**
 * @param {string} address
 * @returns {Promise<Blob>}
 */
async function fetchText(address) {
  const response = await fetch(address);
  if (!response.ok || response.redirected) throw new Error(`No text at ${address}`);
  return new Blob([await response.text()], {type: 'text/plain'});
}

/** @param {HTMLAnchorElement} link */
async function copyText(link) {
  try {
    // A promise in the item: some browsers allow no write after the press once something was awaited.
    await navigator.clipboard.write([new ClipboardItem({'text/plain': fetchText(link.href)})]);
  } catch {
    location.assign(link.href);
    return;
  }
  showNote('Copied');
  say('Copied');
}

/** @param {HTMLElement} button */
async function copyPart(button) {
  const part = document.getElementById(button.dataset.copyText);
  try {
    await navigator.clipboard.writeText(part.textContent);
  } catch {
    getSelection().selectAllChildren(part);
    showNote('Selected. Press Ctrl+C to copy.');
    say('Selected');
    return;
  }
  showNote('Copied');
  say('Copied');
}

/** Copy the text of links with `data-copy` on a plain press, and the parts that buttons with `data-copy-text` name. */
export function startCopying() {
  document.addEventListener('click', event => {
    const target = event.target instanceof Element ? event.target : null;
    const button = target?.closest('[data-copy-text]');
    if (button instanceof HTMLElement) void copyPart(button);
    const link = target?.closest('a[data-copy]');
    const isPlain = !event.ctrlKey && !event.metaKey && !event.shiftKey && !event.altKey;
    if (!(link instanceof HTMLAnchorElement) || !isPlain || !navigator.clipboard?.write) return;
    event.preventDefault();
    void copyText(link);
  });
}
