import assert from 'node:assert/strict';
import {test} from 'node:test';
import {isOutdated, rankCard} from '../../../static/toolcards/live/card_order.js';

test('a card has its rank from the attribute that the order names', () => {
  assert.equal(rankCard({ordinal: '7', requested: '99'}, 'ordinal'), 7);
  assert.equal(rankCard({requested: '99'}, 'requested'), 99);
});

test('a minus puts the largest first', () => {
  assert.ok(rankCard({pk: '9'}, '-pk') < rankCard({pk: '3'}, '-pk'));
});

test('an older revision is outdated, a newer one is not', () => {
  assert.equal(isOutdated({rev: '4', seq: '1'}, {rev: '3', seq: '9'}, false), true);
  assert.equal(isOutdated({rev: '4', seq: '9'}, {rev: '5', seq: '1'}, false), false);
});

test('a card replaces the line of the same revision, and a line no card', () => {
  assert.equal(isOutdated({rev: '4', seq: '1', line: ''}, {rev: '4', seq: '1'}, false), false);
  assert.equal(isOutdated({rev: '4', seq: '1'}, {rev: '4', seq: '1', line: ''}, false), true);
  assert.equal(isOutdated({rev: '4', seq: '1', line: ''}, {rev: '3', seq: '1'}, false), true);
});

test('the same revision counts only with a later sequence number or a notice', () => {
  assert.equal(isOutdated({rev: '4', seq: '1'}, {rev: '4', seq: '1'}, false), true);
  assert.equal(isOutdated({rev: '4', seq: '1'}, {rev: '4', seq: '2'}, false), false);
  assert.equal(isOutdated({rev: '4', seq: '1'}, {rev: '4', seq: '1'}, true), false);
});
