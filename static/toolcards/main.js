// What every page runs; each part starts where its elements are.
import {startActions} from './page/actions.js';
import {startApproveGuard} from './inbox/approve_guard.js';
import {startCardLines} from './runs/card_lines.js';
import {startClock} from './live/clock.js';
import {startConnection} from './live/connection.js';
import {startCopying} from './page/copying.js';
import {startDepartures} from './inbox/departures.js';
import {startFailedRequests} from './page/failed_requests.js';
import {startFolds} from './runs/folds.js';
import {startFollow} from './runs/follow.js';
import {setBatchKeys, startKeys} from './page/keys.js';
import {startLostField} from './page/lost_field.js';
import {startNewCalls} from './runs/new_calls.js';
import {startOwnVotes} from './inbox/own_votes.js';
import {registerExtension, registerServiceWorker, startPlace} from './live/pushed_cards.js';
import {startPointer} from './page/pointer.js';
import {startPointedAnswer} from './inbox/pointed_answer.js';
import {startQueue} from './inbox/queue.js';
import {startSelection} from './page/text_selection.js';
import {startSlots} from './inbox/waiting_slots.js';
import {startWaitingCount} from './live/waiting_count.js';

registerExtension();
document.body.classList.remove('no-js');
startConnection();
startPointer();
startPlace();
startSelection();
startSlots();
startApproveGuard();
startActions();
startWaitingCount();
startClock();
startCopying();
startOwnVotes();
startQueue();
startCardLines();
startFolds();
startDepartures();
startFollow();
startNewCalls();
startLostField();
startKeys();
startFailedRequests();
registerServiceWorker();
startPointedAnswer();

// What few pages have comes when it is there.
if (document.getElementById('batch')) {
  Promise.all([import('./inbox/batch.js'), import('./inbox/batch_bar.js')]).then(([batch, bar]) => {
    batch.startBatch();
    bar.startBatchBar();
    setBatchKeys(batch.pickCard, batch.pickShape, bar.goToBar);
  });
}
if (document.querySelector('[data-words]')) {
  import('./page/search_words.js').then(({startSearchWords}) => startSearchWords());
}
if (document.getElementById('timeline')) {
  import('./runs/zoom.js').then(({startZoom}) => startZoom());
  import('./runs/bar_detail.js').then(({startBarDetail}) => startBarDetail());
}
if (document.getElementById('push-on')) import('./page/push.js').then(({startPush}) => startPush());

const board = document.getElementById('board');
if (board?.dataset.board === 'run' && !('frozen' in board.dataset) && !location.hash) scrollTo(0, 0);
