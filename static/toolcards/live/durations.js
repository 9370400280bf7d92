// Lengths of time and moments as text. Pure functions.

/** @param {number} number */
const pad = number => String(number).padStart(2, '0');

/**
 * Return a running length of time: "42 s", "3:10", "2 h 5 min".
 * @param {number} seconds
 */
export function formatLength(seconds) {
  const whole = Math.max(0, Math.floor(seconds));
  if (whole < 60) return `${whole} s`;
  if (whole < 3600) return `${Math.floor(whole / 60)}:${pad(whole % 60)}`;
  return `${Math.floor(whole / 3600)} h ${Math.floor(whole % 3600 / 60)} min`;
}

/**
 * Return how long something took: "80 ms", "4.2 s", "42 s", "3 min 10 s".
 * @param {number} milliseconds
 */
export function formatDuration(milliseconds) {
  const seconds = milliseconds / 1000;
  if (seconds < 0.1) return `${Math.round(milliseconds)} ms`;
  if (seconds < 60) return `${seconds < 10 ? seconds.toFixed(1) : Math.round(seconds)} s`;
  return `${Math.floor(seconds / 60)} min ${Math.round(seconds % 60)} s`;
}

/**
 * Return how long ago something was; null from a day on, where the date says more.
 * @param {number} seconds
 */
export function formatAge(seconds) {
  if (seconds < 45) return 'just now';
  if (seconds < 3600) return `${Math.max(1, Math.round(seconds / 60))} min ago`;
  return seconds < 86400 ? `${Math.round(seconds / 3600)} h ago` : null;
}

/**
 * Return the time of day: "08:10:05".
 * @param {Date} moment
 */
export function formatClock(moment) {
  return moment.toLocaleTimeString([], {hour: '2-digit', minute: '2-digit', second: '2-digit', hour12: false});
}

/**
 * Return the time of day to the minute: "08:10".
 * @param {Date} moment
 */
export function formatMinute(moment) {
  return moment.toLocaleTimeString([], {hour: '2-digit', minute: '2-digit', hour12: false});
}

/**
 * Return the day and the time: "23 Nov, 08:10".
 * @param {Date} moment
 */
export function formatDay(moment) {
  return moment.toLocaleString([], {day: 'numeric', month: 'short', hour: '2-digit', minute: '2-digit', hour12: false});
}
