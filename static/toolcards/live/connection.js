// The state of the live link: up when every socket of the page has brought its first board, else down.
import {alert, say} from '../page/announce.js';

const SILENCE = 45_000;  // milliseconds without a message after which a socket is opened again
const SHOWN_AFTER = 3_000;  // how long a page is down before it shows it
const ANNOUNCED_AFTER = 10_000;  // and before it announces it

/** @type {Map<Element, {isUp: boolean, heardAt: number}>} */
const sockets = new Map();
/** @type {(() => Iterable<HTMLElement>)[]} what lists the cards that the page keeps for later */
const laterCards = [];
let downSince = 0;
let isAnnounced = false;

/** Return whether pushed changes arrive. */
export const isLive = () => document.body.dataset.live === 'up';

/** Return whether the link has been up since the page came. */
export const wasLive = () => Boolean(document.body.dataset.live);

/** Send the reader to the sign-in page, and back here afterwards. */
export function signInAgain() {
  location.assign(`/login/?next=${encodeURIComponent(location.pathname + location.search)}`);
}

function updateState() {
  if (sockets.size && [...sockets.values()].every(socket => socket.isUp)) {
    document.body.dataset.live = 'up';
    downSince = 0;
    if (isAnnounced) say('Live updates are back.');
    isAnnounced = false;
    return;
  }
  if (isLive()) document.body.dataset.live = 'down';
  downSince ||= Date.now();
}

/**
 * Tell the server that a frame was handled, once the page had time for other work. The next frame but one waits for it,
 * so that a slow page gets the latest state instead of all states before.
 * @param {CustomEvent} event
 */
function confirmFrame(event) {
  const socket = event.detail?.connection?.socket;
  setTimeout(() => { if (socket?.readyState === WebSocket.OPEN) socket.send('ok'); });
}

/** @param {CustomEvent} event */
function handleMessage(event) {
  confirmFrame(event);
  const socket = sockets.get(/** @type {Element} */ (event.target));
  if (!socket) return;
  socket.isUp = true;
  socket.heardAt = Date.now();
  updateState();
}

/**
 * Ask after each lost connection what has become of these cards, too, which the page will show later.
 * @param {() => Iterable<HTMLElement>} listCards
 */
export const watchLater = listCards => { laterCards.push(listCards); };

/**
 * Have the next connection name the waiting cards of the page, so that it brings what has become of them.
 * @param {{url: string}} connection
 */
function nameShownCards(connection) {
  /** @type {NodeListOf<HTMLElement>} */
  const waiting = document.querySelectorAll('#board article[data-waiting]');
  const cards = [...waiting, ...laterCards.flatMap(listCards => [...listCards()])];
  const shown = cards.map(card => `${card.id.slice(2)}.${card.dataset.seq}`).join('_');
  connection.url = connection.url.replace(/&shown=[^&]*$/, '') + (shown && `&shown=${shown}`);
}

/** @param {CustomEvent} event */
function handleClose(event) {
  const element = /** @type {HTMLElement} */ (event.target);
  const socket = sockets.get(element);
  if (!socket) return;
  if (element.dataset.socket === 'me' && event.detail?.connection) nameShownCards(event.detail.connection);
  socket.isUp = false;
  updateState();
  const code = event.detail?.code;
  if (code === 4401) signInAgain();
  if ([4403, 4404, 4409].includes(code)) sockets.delete(element);
}

function watchSilence() {
  const now = Date.now();
  if (downSince && now - downSince > SHOWN_AFTER && !isLive()) document.body.dataset.live = 'down';
  if (downSince && now - downSince > ANNOUNCED_AFTER && !isAnnounced) {
    isAnnounced = true;
    alert('Live updates lost. This page may be out of date.');
  }
  for (const [element, socket] of sockets) {
    if (now - socket.heardAt <= SILENCE) continue;
    Object.assign(socket, {isUp: false, heardAt: now});
    updateState();
    htmx.process(element, true);
  }
}

/** Watch the sockets of the page. */
export function startConnection() {
  for (const element of document.querySelectorAll('[data-socket]')) {
    sockets.set(element, {isUp: false, heardAt: Date.now()});
  }
  downSince = Date.now();
  document.addEventListener('htmx:ws:after:message:incoming', handleMessage);
  document.addEventListener('htmx:ws:error', confirmFrame);  // a frame that could not be handled is over, too
  document.addEventListener('htmx:ws:close', handleClose);
  setInterval(watchSilence, 1000);
}
