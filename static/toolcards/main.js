// What every page runs; each part starts where its elements are.
import {startActions} from './actions.js';
import {startApproveGuard} from './approve_guard.js';
import {startCardLines} from './card_lines.js';
import {startClock} from './clock.js';
import {startConnection} from './connection.js';
import {startCopying} from './copying.js';
import {startDepartures} from './departures.js';
import {startFailedRequests} from './failed_requests.js';
import {startFolds} from './folds.js';
import {startFollow} from './follow.js';
import {setBatchKeys, startKeys} from './keys.js';
import {startLostField} from './lost_field.js';
import {startNewCalls} from './new_calls.js';
import {startOwnVotes} from './own_votes.js';
import {registerExtension, registerServiceWorker, startPlace} from './place.js';
import {startPointer} from './pointer.js';
import {startPointedAnswer} from './pointed_answer.js';
import {startQueue} from './queue.js';
import {startSelection} from './selection.js';
import {startSlots} from './waiting_slots.js';
import {startWaitingCount} from './waiting_count.js';

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
  Promise.all([import('./batch.js'), import('./batch_bar.js')]).then(([batch, bar]) => {
    batch.startBatch();
    bar.startBatchBar();
    setBatchKeys(batch.pickCard, batch.pickShape, bar.goToBar);
  });
}
if (document.getElementById('timeline')) {
  import('./zoom.js').then(({startZoom}) => startZoom());
  import('./bar_detail.js').then(({startBarDetail}) => startBarDetail());
}
if (document.getElementById('push-on')) import('./push.js').then(({startPush}) => startPush());

const board = document.getElementById('board');
if (board?.dataset.board === 'run' && !('frozen' in board.dataset) && !location.hash) scrollTo(0, 0);
