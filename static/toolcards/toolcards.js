// What makes pages alive: the link's state, the count in title and icon, clocks, arming, held cards, announcements.
(() => {
  const ARMING = 400, SURE = 4000, SILENCE = 45000;
  const LAST = 30;  // seconds before a question ends in which its reader is told, once
  const body = () => document.body;
  const $ = id => document.getElementById(id);
  const say = text => { const at = $('say'); if (at) { at.textContent = ''; setTimeout(() => { at.textContent = text; }, 50); } };
  const alert = text => { const at = $('alert'); if (at) at.textContent = text; };

  // ------------------------------------------------------------ the live link

  const sockets = new Map();  // element -> true once its first board has arrived
  let downSince = 0, lostSaid = false;

  const judge = () => {
    const up = sockets.size > 0 && [...sockets.values()].every(Boolean);
    if (up) { body().dataset.live = 'up'; downSince = 0; if (lostSaid) { lostSaid = false; say('Live again.'); } return; }
    if (body().dataset.live === 'up') { body().dataset.live = 'down'; }
    downSince ||= Date.now();
  };
  const arrived = event => { const at = event.target; requestAnimationFrame(tick); if (sockets.has(at)) { sockets.set(at, true); at.heard = Date.now(); judge(); } };
  const closed = event => {
    const at = event.target, code = event.detail?.code;
    if (!sockets.has(at)) return;
    sockets.set(at, false); judge();
    if (code === 4401) location.assign('/login/?next=' + encodeURIComponent(location.pathname + location.search));
    if (code === 4403 || code === 4404) sockets.delete(at);
  };
  const watch = () => {
    if (downSince && Date.now() - downSince > 3000 && body().dataset.live !== 'up') body().dataset.live = 'down';
    if (downSince && Date.now() - downSince > 10000 && !lostSaid) { lostSaid = true; alert('Live updates lost. Buttons still work.'); }
    for (const at of sockets.keys()) {
      if (Date.now() - (at.heard ||= Date.now()) > SILENCE) { at.heard = Date.now(); sockets.set(at, false); judge(); htmx.process(at, true); }
    }
  };

  // ------------------------------------------------------------ how many wait

  const counted = () => {
    const at = $('waiting-count'), count = at ? +at.dataset.waitingCount : 0;
    const plain = document.title.replace(/^\(\d+\) /, '');
    document.title = count ? `(${count}) ${plain}` : plain;
    const icon = document.querySelector('link[rel=icon]');
    icon.plainHref ||= icon.getAttribute('href');
    const wanted = count ? icon.dataset.waitingIcon : icon.plainHref;
    if (icon.getAttribute('href') !== wanted) icon.setAttribute('href', wanted);
    const newest = at ? at.dataset.newest : '';
    const risky = newest && newest !== counted.newest && count >= counted.before && at.dataset.risk === 'high';
    if ((counted.before === 0 && count > 0) || risky) alert(at.dataset.says);
    if (count === 0) alert('');
    counted.before = count; counted.newest = newest;
  };

  // ------------------------------------------------------------ clocks

  let skew = 0;  // the server's clock minus ours, in milliseconds
  const two = number => String(number).padStart(2, '0');
  const now = () => Date.now() + skew;
  const length = seconds => {
    const whole = Math.max(0, Math.floor(seconds));
    if (whole < 60) return `${whole} s`;
    if (whole < 3600) return `${Math.floor(whole / 60)}:${two(whole % 60)}`;
    return `${Math.floor(whole / 3600)} h ${Math.floor(whole % 3600 / 60)} min`;
  };
  const FORMS = {
    clock: at => at.toLocaleTimeString([], {hour: '2-digit', minute: '2-digit', second: '2-digit', hour12: false}),
    day: at => at.toLocaleString([], {day: 'numeric', month: 'short', hour: '2-digit', minute: '2-digit', hour12: false}),
    ago: at => {
      const seconds = (now() - at) / 1000;
      if (seconds < 45) return 'just now';
      if (seconds < 3600) return `${Math.max(1, Math.round(seconds / 60))} min ago`;
      return seconds < 86400 ? `${Math.round(seconds / 3600)} h ago` : FORMS.day(at);
    },
  };
  const write = (at, text) => { if (at.textContent !== text) at.textContent = text; };
  const warned = new Set();  // questions whose end was said
  const ending = (card, until) => {
    const question = `${card.id} ${until}`;
    if (warned.has(question)) return;
    warned.add(question);
    card.querySelector('.countdown')?.classList.add('last');
    const [tool, about] = ['.tool', '.sum'].map(part => card.querySelector(part)?.textContent.slice(0, 80) || '');
    alert(`Less than ${LAST} seconds left to answer ${tool} ${about}. Press n to go there.`);
  };
  const tick = () => {
    const clock = $('server-clock')?.getAttribute('datetime');
    if (clock && clock !== tick.seen) { tick.seen = clock; skew = Date.parse(clock) - Date.now(); }
    for (const at of document.querySelectorAll('time[data-since]')) write(at, length(now() / 1000 - at.dataset.since));
    for (const at of document.querySelectorAll('time[data-until]')) {
      const left = +at.dataset.until - now() / 1000;
      const clockTime = FORMS.clock(new Date(at.dataset.until * 1000));
      write(at, left > 0 ? `${clockTime} (in ${length(left)})` : clockTime);
      at.closest('.countdown')?.classList.toggle('soon', left < 60);
      const undo = at.closest('form.undo'), card = at.closest('article.card[data-waiting]');
      if (undo) undo.hidden = left <= 0;
      else if (card && left > 0 && left <= LAST) ending(card, at.dataset.until);
    }
    for (const at of document.querySelectorAll('time[data-time]')) {
      const form = at.dataset.time;
      if (form !== 'ago' && at.told === at.dateTime && at.textContent === at.written) continue;
      at.told = at.dateTime; at.written = FORMS[form](new Date(at.dateTime)); write(at, at.written);
    }
  };

  // ------------------------------------------------------------ cards that come and change

  const arm = card => {
    const approve = card.querySelector('button[name=decision][value=approve]');
    if (!approve) return;
    unsure(card);
    clearTimeout(card.arming);
    approve.setAttribute('aria-disabled', 'true');
    const until = card.armed = performance.now() + ARMING;
    card.arming = setTimeout(() => {
      if (card.armed === until) card.armed = 0;  // timers may be early
      card.querySelector('button[value=approve]')?.removeAttribute('aria-disabled');
    }, ARMING);
  };
  // A high risk takes two presses: the first one turns the button into a question, for four seconds.
  const unsure = card => {
    clearTimeout(card.asking);
    card.sure = false;
    const button = card.querySelector('button[data-asking]');
    if (!button) return;
    delete button.dataset.asking;
    button.querySelector('.word').textContent = 'Approve';
  };
  const askAgain = (card, button) => {
    const tool = button.form.dataset.sure;
    card.sure = true;
    card.armed = performance.now() + ARMING;  // a double click is one press
    button.dataset.asking = '';
    button.querySelector('.word').textContent = `Approve ${tool}?`;
    card.asking = setTimeout(() => unsure(card), SURE);
    say(`High risk. Press again to approve ${tool}.`);
  };
  const flash = card => { card.classList.remove('fresh'); void card.offsetWidth; card.classList.add('fresh'); };
  const tooSoon = event => {
    const button = event.target.closest?.('button[name=decision][value=approve], button[name=decision][value=edit]');
    const card = button?.closest('article.card');
    if (!card) return;
    const no = () => { event.preventDefault(); event.stopImmediatePropagation(); };
    if (performance.now() < (card.armed || 0)) { no(); return; }
    if (!('sure' in button.form.dataset)) return;
    button.form.noValidate = true;  // the box to tick is for pages without scripts
    if (button.value === 'approve' && !card.sure) { no(); askAgain(card, button); }
  };

  // ------------------------------------------------------------ new cards wait while somebody reads

  const held = new Map();
  const reading = list => list.dataset.board !== 'run' && !list.classList.contains('split') && (scrollY > 80 || list.contains(document.activeElement)
    || [...list.querySelectorAll('input[name=reason], textarea')].some(field => field.value !== field.defaultValue));
  const tellHeld = list => {
    let button = document.querySelector('button[data-held]');
    if (!held.size) { button?.remove(); return; }
    if (!button) {
      button = document.createElement('button');
      button.type = 'button'; button.className = 'btn pri'; button.addEventListener('click', () => release(list));
      list.before(button);
    }
    button.dataset.held = held.size;
    button.textContent = held.size === 1 ? '1 new card' : `${held.size} new cards`;
  };
  const release = list => {
    for (const card of held.values()) if (!$(card.id)) { toolcards.insertHeld(list, card); htmx.process(card); }
    const first = [...held.keys()][0];
    held.clear(); tellHeld(list);
    $(first)?.focus();
  };

  Object.assign(window.toolcards, {
    changed(card) { arm(card); flash(card); },
    moved(card) { arm(card); },
    appeared(card) { arm(card); if (body().dataset.live) flash(card); },
    holds(list, card) {
      if (!held.has(card.id) && (body().dataset.live !== 'up' || !reading(list))) return false;
      held.set(card.id, card); tellHeld(list);
      return true;
    },
    olderThan(list) {
      const first = list.querySelector('article.card')?.dataset.ordinal, link = $('older');
      if (first && link) link.href = '?before=' + first;
      else if (first) {
        const line = document.createElement('p'), made = document.createElement('a');
        line.className = 'pager'; made.id = 'older'; made.href = '?before=' + first; made.textContent = 'Older calls';
        line.append(made); list.before(line);
      }
    },
    strange(fragment) {  // an answer that is no card: most likely the sign-in page
      const signedOut = fragment.querySelector('input[name=password]');
      if (signedOut) location.assign('/login/?next=' + encodeURIComponent(location.pathname));
      else alert('The answer was not understood. Reload the page.');
    },
    showHeld() { const list = $('board'); if (list && held.size) release(list); },
    say, alert,
  });

  // ------------------------------------------------------------ after one's own vote

  const voted = event => {
    const card = event.target.closest?.('article.card') || event.detail?.ctx?.sourceElement?.closest?.('article.card');
    const fresh = card && $(card.id);
    if (!fresh || !fresh.votedAt || performance.now() - fresh.votedAt > 30000) return;
    if (fresh.querySelector('[data-told]')) { fresh.votedAt = 0; say(fresh.querySelector('[data-told]').textContent); fresh.focus(); return; }
    if (fresh.hasAttribute('data-waiting')) return;
    fresh.votedAt = 0;
    const waiting = [...document.querySelectorAll('article.card[data-waiting]')].filter(other => other !== fresh);
    const word = {'output-denied': 'Denied'}[fresh.dataset.state] || 'Approved';
    say(waiting.length ? `${word}. ${waiting.length} left on this page.` : `${word}. Nothing else waits here.`);
    toolcards.select?.(waiting[0]);
    (waiting[0] || $('main')).focus({preventScroll: !waiting.length});
  };

  // ------------------------------------------------------------ settings of this browser

  const keep = (name, value) => { try { value ? localStorage.setItem('toolcards.' + name, value) : localStorage.removeItem('toolcards.' + name); } catch (refused) { /* private windows */ } };
  const kept = name => { try { return localStorage.getItem('toolcards.' + name); } catch (refused) { return null; } };
  const DO = {
    theme() {
      const order = ['', 'light', 'dark'], root = document.documentElement;
      const next = order[(order.indexOf(root.dataset.theme || '') + 1) % 3];
      if (next) root.dataset.theme = next; else delete root.dataset.theme;
      keep('theme', next); say(`Theme: ${next || 'as the system says'}`);
    },
    density() {
      const root = document.documentElement, compact = root.dataset.density !== 'compact';
      if (compact) root.dataset.density = 'compact'; else delete root.dataset.density;
      keep('density', compact ? 'compact' : ''); say(compact ? 'Compact' : 'Comfortable');
    },
    help() { $('help').showModal(); },
  };
  Object.assign(window.toolcards, {do: DO, kept});

  document.addEventListener('click', tooSoon, true);
  document.addEventListener('submit', event => {
    const card = event.target.closest?.('article.card');
    if (card && event.submitter?.name === 'decision') card.votedAt = performance.now();
  }, true);
  document.addEventListener('click', event => {
    const button = event.target.closest('[data-do]');
    if (button) DO[button.dataset.do]?.();
  });
  document.addEventListener('change', event => {
    if (event.target.matches('select[data-submit]')) event.target.form.requestSubmit();
    if (event.target.matches('[data-setting=keys]')) keep('keys', event.target.checked ? '' : 'off');
  });
  document.addEventListener('htmx:ws:after:message:incoming', arrived);
  document.addEventListener('htmx:ws:close', closed);
  document.addEventListener('htmx:after:swap', event => { voted(event); tick(); });

  document.addEventListener('DOMContentLoaded', () => {
    body().classList.remove('no-js');
    for (const at of document.querySelectorAll('[data-socket]')) sockets.set(at, false);
    downSince = Date.now();
    for (const fold of document.querySelectorAll('details[open]')) fold.madeOpen = true;
    for (const card of document.querySelectorAll('article.card')) arm(card);
    const box = document.querySelector('[data-setting=keys]');
    if (box) box.checked = kept('keys') !== 'off';
    const count = $('waiting-count');
    if (count) new MutationObserver(counted).observe(count, {attributes: true, attributeFilter: ['data-waiting-count', 'data-newest']});
    counted.before = count ? +count.dataset.waitingCount : 0;
    counted.newest = count?.dataset.newest;
    counted(); tick();
    const run = $('board');
    if (run?.dataset.board === 'run' && !('frozen' in run.dataset) && !location.hash) scrollTo(0, 0);
  });
  setInterval(tick, 1000);
  setInterval(watch, 1000);
})();
