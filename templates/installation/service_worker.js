{% load toolcards %}// Shows a page of its own while the server cannot be reached. Keeps that page and its styles, nothing else.
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
