// Links to texts that a press copies. Without a clipboard (plain http, old browsers) the link opens the text.
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

/** Copy the text of links with `data-copy` on a plain press. */
export function startCopying() {
  document.addEventListener('click', event => {
    const link = event.target instanceof Element && event.target.closest('a[data-copy]');
    const isPlain = !event.ctrlKey && !event.metaKey && !event.shiftKey && !event.altKey;
    if (!(link instanceof HTMLAnchorElement) || !isPlain || !navigator.clipboard?.write) return;
    event.preventDefault();
    void copyText(link);
  });
}
