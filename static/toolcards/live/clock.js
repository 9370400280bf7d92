// Times on the page, in the reader's time zone: they tick by the server's clock, and an approval's end is announced.
import {alert} from '../page/announce.js';
import {formatAge, formatClock, formatDay, formatLength} from './durations.js';

const LAST_SECONDS = 30;  // before an approval expires, when the page announces it once

let skew = 0;  // the server's clock minus ours, in milliseconds
let serverClock = '';
let frame = 0;  // the next frame, where it will write the times
const announced = new Set();  // approvals whose end was announced
const written = new WeakMap();  // time element -> what was written into it, and for which moment

const now = () => Date.now() + skew;

/** @type {Record<string, (moment: Date) => string>} */
const FORMATS = {
  clock: formatClock,
  day: formatDay,
  ago: moment => formatAge((now() - +moment) / 1000) ?? formatDay(moment),
};

/**
 * @param {Element} element
 * @param {string} text
 */
export function writeText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/**
 * Announce that an approval is about to expire, once.
 * @param {Element} card
 * @param {string} until
 */
function announceEnd(card, until) {
  const approval = `${card.id} ${until}`;
  if (announced.has(approval)) return;
  announced.add(approval);
  card.querySelector('.countdown')?.classList.add('last');
  const summary = card.querySelector('.sum')?.textContent.slice(0, 120) || '';
  alert(`Less than ${LAST_SECONDS} seconds left to answer: ${summary}. Press n to go there.`);
}

/** @param {HTMLTimeElement} element */
function writeCountdown(element) {
  const end = Number(element.dataset.until);
  const left = end - now() / 1000;
  const clockTime = formatClock(new Date(end * 1000));
  writeText(element, left > 0 ? `${clockTime} (in ${formatLength(left)})` : clockTime);
  element.closest('.countdown')?.classList.toggle('soon', left < 60);
  const card = element.closest('article.card[data-waiting]');
  if (card && left > 0 && left <= LAST_SECONDS) announceEnd(card, element.dataset.until);
}

/** @param {HTMLTimeElement} element */
function writeMoment(element) {
  const format = element.dataset.time;
  const last = written.get(element);
  if (format !== 'ago' && last?.dateTime === element.dateTime && element.textContent === last.text) return;
  const text = FORMATS[format](new Date(element.dateTime));
  written.set(element, {dateTime: element.dateTime, text});
  writeText(element, text);
}

/** Write every time on the page. */
export function tick() {
  frame = 0;
  const clock = document.getElementById('server-clock')?.getAttribute('datetime');
  if (clock && clock !== serverClock) {
    serverClock = clock;
    skew = Date.parse(clock) - Date.now();
  }
  /** @type {(selector: string) => NodeListOf<HTMLTimeElement>} */
  const times = selector => document.querySelectorAll(selector);
  for (const each of times('time[data-since]')) {
    writeText(each, formatLength(now() / 1000 - Number(each.dataset.since)));
  }
  for (const each of times('time[data-until]')) writeCountdown(each);
  for (const each of times('time[data-time]')) writeMoment(each);
}

/** Start the clock. */
export function startClock() {
  document.addEventListener('htmx:after:swap', () => { frame ||= requestAnimationFrame(tick); });
  document.addEventListener('htmx:ws:after:message:incoming', () => { frame ||= requestAnimationFrame(tick); });
  tick();
  setInterval(tick, 1000);
}
