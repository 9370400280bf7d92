import assert from 'node:assert/strict';
import {test} from 'node:test';
import {formatAge, formatDuration, formatLength} from '../../../static/toolcards/live/durations.js';

test('a running length is written in its largest two units', () => {
  assert.deepEqual([-3, 0.9, 59.9, 60, 190, 3600, 7500].map(formatLength),
    ['0 s', '0 s', '59 s', '1:00', '3:10', '1 h 0 min', '2 h 5 min']);
});

test('a duration keeps one decimal below ten seconds', () => {
  assert.deepEqual([80, 100, 4230, 9990, 42_000, 190_000].map(formatDuration),
    ['80 ms', '0.1 s', '4.2 s', '10.0 s', '42 s', '3 min 10 s']);
});

test('an age is null from a day on', () => {
  assert.deepEqual([0, 44, 45, 600, 7200, 86_399, 86_400].map(formatAge),
    ['just now', 'just now', '1 min ago', '10 min ago', '2 h ago', '24 h ago', null]);
});
