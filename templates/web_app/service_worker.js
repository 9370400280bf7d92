{% load toolcards %}// Shows a page of its own while the server cannot be reached, and notifications of calls that wait.
// Keeps that page and its styles, nothing else.
const CACHE = 'toolcards-{% version %}';
const OFFLINE = '{% url 'offline' %}';
const FILES = [OFFLINE, {% for file in files %}'{{ file|escapejs }}'{% if not forloop.last %}, {% endif %}{% endfor %}];

async function install() {
  const cache = await caches.open(CACHE);
  await cache.addAll(FILES.map(file => new Request(file, {cache: 'reload', credentials: 'omit'})));
  await self.skipWaiting();
}

async function activate() {
  const names = await caches.keys();
  await Promise.all(names.filter(name => name !== CACHE).map(name => caches.delete(name)));
  await self.clients.claim();
}

async function fetchOrFallBack(request, path) {
  try {
    return await fetch(request);
  } catch (error) {
    const response = await (await caches.open(CACHE)).match(path);
    if (response) return response;
    throw error;
  }
}

self.addEventListener('install', event => event.waitUntil(install()));
self.addEventListener('activate', event => event.waitUntil(activate()));
self.addEventListener('fetch', event => {
  const {request} = event;
  const url = new URL(request.url);
  if (request.method !== 'GET' || url.origin !== self.location.origin) return;
  if (request.mode === 'navigate') event.respondWith(fetchOrFallBack(request, OFFLINE));
  else if (FILES.includes(url.pathname)) event.respondWith(fetchOrFallBack(request, url.pathname));
});

// ---------------------------------------------------------------- notifications

const ANSWERS = [{action: 'deny', title: 'Deny'}, {action: 'approve', title: 'Approve'}];

function readMessage(data) {
  try {
    const message = data.json();
    if (typeof message.tag === 'string' && typeof message.title === 'string') return message;
  } catch { /* not ours, or damaged */ }
  return {tag: 'unreadable', title: 'Toolcards', body: 'There is news.', path: '/approvals/'};
}

// A push must show something, unless a page of ours is in view. So the end of an approval replaces its notification.
async function showMessage(message) {
  const {tag, title, body = '', path = '/approvals/', over = false, answers = false} = message;
  const pages = await self.clients.matchAll({type: 'window', includeUncontrolled: true});
  if (over && pages.some(page => page.visibilityState === 'visible')) {
    for (const shown of await self.registration.getNotifications({tag})) shown.close();
    return;
  }
  await self.registration.showNotification(title, {
    tag, body, data: {path}, silent: over, renotify: !over, requireInteraction: answers,
    actions: answers ? ANSWERS : [], icon: '{{ icon|escapejs }}', badge: '{{ icon|escapejs }}',
  });
}

// Only a page of the signed-in person can answer: the buttons open it, and it points at the button to press.
async function openPage(path, answer) {
  const url = new URL(path, self.location.origin);
  if (url.origin !== self.location.origin) return;
  const pages = await self.clients.matchAll({type: 'window', includeUncontrolled: true});
  const page = pages.find(each => new URL(each.url).pathname === url.pathname);
  if (page) {
    await page.focus();
    page.postMessage({answer});
    return;
  }
  if (answer) url.searchParams.set('answer', answer);
  await self.clients.openWindow(url.href);
}

self.addEventListener('push', event => event.waitUntil(showMessage(readMessage(event.data))));
self.addEventListener('notificationclick', event => {
  event.notification.close();
  const answer = ANSWERS.some(each => each.action === event.action) ? event.action : '';
  event.waitUntil(openPage(event.notification.data?.path ?? '/approvals/', answer));
});
