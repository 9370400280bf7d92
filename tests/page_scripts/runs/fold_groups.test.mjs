import assert from 'node:assert/strict';
import {test} from 'node:test';
import {describeGroup, groupQuietCards} from '../../../static/toolcards/runs/fold_groups.js';

const isQuiet = card => card === 'q' || card === 'f';
const group = (cards, agentOf = () => 'one') => groupQuietCards([...cards], isQuiet, agentOf, card => card === 'f');

test('four quiet neighbors fold, three do not', () => {
  assert.deepEqual(group('qqqq---').map(each => each.length), [4]);
  assert.deepEqual(group('qqq----'), []);
});

test('what is folded stays so, however few are left', () => {
  assert.deepEqual(group('fq---').map(each => each.length), [2]);
});

test('the newest three never fold', () => {
  assert.deepEqual(group('qqqqqqq').map(each => each.length), [4]);
  assert.deepEqual(group('qqqqqq'), []);
});

test('what stands out parts two groups', () => {
  assert.deepEqual(group('qqqqxqqqqq---').map(each => each.length), [4, 5]);
});

test('a group holds the cards of one agent', () => {
  const cards = ['a', 'a', 'a', 'a', 'b', 'b', 'b', 'b', '-', '-', '-'];
  const groups = groupQuietCards(cards, card => card !== '-', card => card, () => false);
  assert.deepEqual(groups, [['a', 'a', 'a', 'a'], ['b', 'b', 'b', 'b']]);
});

test('a line counts the calls, names the commonest tools and sums the time', () => {
  const calls = ['Read', 'Grep', 'Read', 'Edit', 'Bash', 'Write'].map(tool => ({tool, milliseconds: 500}));
  assert.deepEqual(describeGroup(calls), ['6 calls', '2 Read, 1 Grep, 1 Edit, 1 Bash and others', '3.0 s']);
});
