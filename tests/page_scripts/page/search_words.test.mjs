import assert from 'node:assert/strict';
import test from 'node:test';
import {listSuggestions} from '../../../static/toolcards/page/search_words.js';

const WORDS = ['state:failed', 'state:denied', 'tool:Bash', 'agent:codex'];

test('the last word is suggested, after the words before it', () => {
  assert.deepEqual(listSuggestions('tool:Bash sta', WORDS), ['tool:Bash state:failed', 'tool:Bash state:denied']);
  assert.deepEqual(listSuggestions('', WORDS), WORDS);
  assert.deepEqual(listSuggestions('x -TOOL:b', WORDS), ['x -tool:Bash']);
  assert.deepEqual(listSuggestions('nothing:', WORDS), []);
});
