// Switches push notifications on and off in this browser, and says why where it cannot.

/** @param {string} name - of the one state to show; see `templates/notify/push.html` */
function showState(name) {
  for (const part of /** @type {NodeListOf<HTMLElement>} */ (document.querySelectorAll('[data-push-state]'))) {
    part.hidden = part.dataset.pushState !== name;
  }
}

/** @param {ArrayBuffer | null} buffer */
function encodeBase64url(buffer) {
  const letters = Array.from(new Uint8Array(buffer ?? new ArrayBuffer(0)), byte => String.fromCharCode(byte));
  return btoa(letters.join('')).replaceAll('+', '-').replaceAll('/', '_').replaceAll('=', '');
}

/** @param {string} text */
async function digest(text) {
  const bytes = new Uint8Array(await crypto.subtle.digest('SHA-256', new TextEncoder().encode(text)));
  return Array.from(bytes, byte => byte.toString(16).padStart(2, '0')).join('');
}

/** Return why push cannot work here, or an empty string. */
function findObstacle() {
  if (!isSecureContext) return 'insecure';
  if (!navigator.serviceWorker || !('PushManager' in window) || !('Notification' in window)) return 'unsupported';
  if (Notification.permission === 'denied') return 'denied';
  return '';
}

/**
 * Return this browser's subscription with the server's key, or a new one.
 * @param {ServiceWorkerRegistration} registration
 * @param {string} key
 */
async function subscribe(registration, key) {
  const present = await registration.pushManager.getSubscription();
  if (present && encodeBase64url(present.options.applicationServerKey) === key) return present;
  await present?.unsubscribe();
  return registration.pushManager.subscribe({userVisibleOnly: true, applicationServerKey: key});
}

/**
 * @param {HTMLFormElement} form
 * @param {string} name
 * @param {string} value
 */
function setField(form, name, value) {
  /** @type {HTMLInputElement} */
  const field = form.querySelector(`input[name=${name}]`);
  field.value = value;
}

/**
 * @param {HTMLFormElement} form
 * @param {string} key
 */
async function switchOn(form, key) {
  if (await Notification.requestPermission() !== 'granted') {
    showState(findObstacle() || 'off');
    return;
  }
  try {
    const subscription = await subscribe(await navigator.serviceWorker.ready, key);
    setField(form, 'endpoint', subscription.endpoint);
    setField(form, 'public_key', encodeBase64url(subscription.getKey('p256dh')));
    setField(form, 'auth', encodeBase64url(subscription.getKey('auth')));
  } catch {
    showState('unreachable');
    return;
  }
  form.submit();
}

/** @param {string} endpointDigest */
async function markThisBrowser(endpointDigest) {
  /** @type {HTMLElement | null} */
  const row = document.querySelector(`[data-browser="${endpointDigest}"]`);
  if (!row) return false;
  row.querySelector('[data-this-browser]').removeAttribute('hidden');
  /** @type {HTMLFormElement} */
  const form = row.querySelector('form[data-remove]');
  form.addEventListener('submit', async event => {
    event.preventDefault();
    const registration = await navigator.serviceWorker.ready;
    await (await registration.pushManager.getSubscription())?.unsubscribe().catch(() => false);
    form.submit();
  });
  return true;
}

/** @param {string} key */
async function showPresentState(key) {
  const obstacle = findObstacle();
  if (obstacle) { showState(obstacle); return; }
  const registration = await navigator.serviceWorker.ready;
  const subscription = await registration.pushManager.getSubscription();
  const isKnown = subscription && encodeBase64url(subscription.options.applicationServerKey) === key
    && await markThisBrowser(await digest(subscription.endpoint));
  showState(isKnown && Notification.permission === 'granted' ? 'on' : 'off');
}

/** Start the page of push notifications, where the server has a key for it. */
export function startPush() {
  const form = document.getElementById('push-on');
  if (!(form instanceof HTMLFormElement)) return;
  const key = form.dataset.key;
  form.addEventListener('submit', event => {
    event.preventDefault();
    void switchOn(form, key);
  });
  void showPresentState(key).catch(() => showState('unsupported'));
}
