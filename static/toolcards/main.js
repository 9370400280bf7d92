// What every page runs; each part starts where its elements are.
import {startActions} from './actions.js';
import {startApproveGuard} from './approve_guard.js';
import {startBatch} from './batch.js';
import {startBatchBar} from './batch_bar.js';
import {startClock} from './clock.js';
import {startConnection} from './connection.js';
import {startDepartures} from './departures.js';
import {startFolds} from './folds.js';
import {startFollow} from './follow.js';
import {startKeys} from './keys.js';
import {startOwnVotes} from './own_votes.js';
import {registerExtension, registerServiceWorker, startPlace} from './place.js';
import {startQueue} from './queue.js';
import {startSlots} from './waiting_slots.js';
import {startWaitingCount} from './waiting_count.js';

registerExtension();
document.body.classList.remove('no-js');
startConnection();
startPlace();
startSlots();
startApproveGuard();
startActions();
startWaitingCount();
startClock();
startOwnVotes();
startQueue();
startBatch();
startBatchBar();
startFolds();
startDepartures();
startFollow();
startKeys();
registerServiceWorker();

const board = document.getElementById('board');
if (board?.dataset.board === 'run' && !('frozen' in board.dataset) && !location.hash) scrollTo(0, 0);
