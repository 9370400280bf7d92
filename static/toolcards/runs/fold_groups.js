// Which neighbors on a long run's page fold into one line, and what the line says. Pure functions.
import {formatDuration} from '../live/durations.js';

const LEAST = 4;  // cards to a fold
const TAIL = 3;  // the newest cards, which are being read
const NAMED = 4;  // tools named in a fold's line

/**
 * Return the runs of neighbors that may fold: at least four quiet ones of one agent, except the newest three cards.
 * What is folded stays so, however few are left of it.
 * @template T
 * @param {T[]} cards
 * @param {(card: T) => boolean} isQuiet
 * @param {(card: T) => string} agentOf
 * @param {(card: T) => boolean} isFolded
 * @returns {T[][]}
 */
export function groupQuietCards(cards, isQuiet, agentOf, isFolded) {
  /** @type {T[][]} */
  const groups = [];
  /** @type {T[]} */
  let group = [];
  const close = () => {
    if (group.length >= LEAST || group.some(isFolded)) groups.push(group);
    group = [];
  };
  cards.slice(0, -TAIL).forEach(card => {
    if (!isQuiet(card)) { close(); return; }
    if (group.length && agentOf(group[0]) !== agentOf(card)) close();
    group.push(card);
  });
  close();
  return groups;
}

/**
 * Return the three parts of a fold's line: "6 calls", "4 Read, 2 Grep", "3.1 s".
 * @param {{tool: string, milliseconds: number}[]} calls
 */
export function describeGroup(calls) {
  /** @type {Map<string, number>} */
  const counts = new Map();
  for (const {tool} of calls) counts.set(tool, (counts.get(tool) || 0) + 1);
  const names = [...counts].sort((a, b) => b[1] - a[1]).map(([tool, count]) => `${count} ${tool}`);
  const named = names.slice(0, NAMED).join(', ') + (names.length > NAMED ? ' and others' : '');
  const milliseconds = calls.reduce((sum, call) => sum + call.milliseconds, 0);
  return [calls.length === 1 ? '1 call' : `${calls.length} calls`, named, formatDuration(milliseconds)];
}
