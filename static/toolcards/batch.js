// Several calls answered at once: what is ticked stays ticked while the page changes, except where the call itself did.
(() => {
  const ARMING = 400;  // milliseconds in which a group that came or changed cannot be approved
  const ticked = new Map();  // a card's id -> the ticket that was ticked: approval, revision, digests
  let batch, said, shown = new Map();  // a form's id -> its tickets, joined

  const all = within => [...within.querySelectorAll('input[name=pick][type=checkbox]')];
  const word = (form, value) => form.querySelector(`button[value=${value}] .word`);
  const write = (at, text) => { if (at && at.textContent !== text) at.textContent = text; };

  const count = form => {
    const boxes = all(form), chosen = boxes.filter(box => box.checked), every = form.querySelector('[data-all]');
    every.checked = chosen.length === boxes.length;
    every.indeterminate = chosen.length > 0 && !every.checked;
    write(word(form, 'approve'), chosen.length ? `Approve ${chosen.length}` : 'Approve');
    write(word(form, 'deny'), chosen.length ? `Deny ${chosen.length}` : 'Deny');
    const told = form.closest('details').querySelector('.ticked');
    told.hidden = !chosen.length;
    write(told, `${chosen.length} ticked`);
    for (const box of boxes) document.getElementById(box.dataset.card)?.parentElement.classList.toggle('picked', box.checked);
    return chosen.length;
  };
  const tick = (box, on) => {
    box.checked = on;
    if (on) ticked.set(box.dataset.card, box.value); else ticked.delete(box.dataset.card);
  };
  const arm = form => {
    const approve = form.querySelector('button[value=approve]');
    if (!approve) return;
    clearTimeout(form.arming);
    form.armed = performance.now() + ARMING;
    approve.setAttribute('aria-disabled', 'true');
    form.arming = setTimeout(() => { form.armed = 0; approve.removeAttribute('aria-disabled'); }, ARMING);  // timers may be early
  };

  // After the page has changed: every tick where it was, unless its call is another one by now.
  const settle = () => {
    const here = new Map(all(batch).map(box => [box.dataset.card, box])), changed = [];
    for (const [card, ticket] of ticked) {
      const box = here.get(card);
      if (box && box.value === ticket) continue;
      ticked.delete(card);
      if (box) changed.push(box);
    }
    for (const box of here.values()) box.checked = ticked.get(box.dataset.card) === box.value;
    for (const card of document.querySelectorAll('#board > .picked')) card.classList.remove('picked');
    const now = new Map();
    for (const form of batch.querySelectorAll('details[id] > form')) {
      const id = form.parentElement.id, tickets = all(form).map(box => box.value).join('\n');
      now.set(id, tickets);
      if (shown.get(id) !== tickets) arm(form);
      else if (form.armed) form.querySelector('button[value=approve]')?.setAttribute('aria-disabled', 'true');  // as sent, it has none
      count(form);
    }
    const moved = [...shown.keys()].join() !== [...now.keys()].join();
    shown = now;
    if (moved) for (const card of document.querySelectorAll('#board article.card[data-waiting]')) toolcards.moved(card);
    for (const box of changed) {
      box.closest('tr').classList.add('changed');
      toolcards.say('A call that you had ticked has changed. Its tick is gone.');
    }
  };

  // ------------------------------------------------------------ by keyboard

  const boxOf = card => card && batch && all(batch).find(box => box.dataset.card === card.id);
  const none = () => toolcards.say('No other waiting call shares its shape.');
  Object.assign(window.toolcards, {
    pick(card) {
      const box = boxOf(card);
      if (!box) return none();
      tick(box, !box.checked);
      box.closest('details').open = true;
      toolcards.say(`${box.checked ? 'Selected' : 'Not selected'}. ${count(box.form)} of ${all(box.form).length} of this shape are.`);
    },
    pickShape(card) {
      const box = boxOf(card);
      if (!box) return none();
      for (const one of all(box.form)) tick(one, true);
      box.closest('details').open = true;
      toolcards.say(`${count(box.form)} selected. Press a to approve them, d to deny them.`);
      box.form.focus({preventScroll: true});
      box.form.scrollIntoView({block: 'nearest'});
    },
  });

  const answered = event => {
    const form = event.target.closest?.('#batch form'), button = event.submitter;
    if (!form || button?.name !== 'answer' || form.matches('.of-run')) return;
    const no = text => { event.preventDefault(); event.stopImmediatePropagation(); toolcards.say(text); };
    if (!all(form).some(box => box.checked)) no('Tick the calls first.');
    else if (button.value === 'approve' && performance.now() < (form.armed || 0)) no('The calls have just changed. Look again.');
  };

  document.addEventListener('DOMContentLoaded', () => {
    batch = document.getElementById('batch');
    said = document.getElementById('batch-said');
    if (!batch) return;
    document.addEventListener('submit', answered, true);
    batch.addEventListener('change', event => {
      const box = event.target, form = box.form;
      if (box.matches('[data-all]')) for (const one of all(form)) tick(one, box.checked);
      else if (box.name === 'pick') tick(box, box.checked);
      else return;
      box.closest('tr')?.classList.remove('changed');
      count(form);
    });
    batch.addEventListener('toggle', event => { event.target.byHand = true; }, true);  // stays as the reader has it
    batch.addEventListener('click', event => {
      const link = event.target.closest('a[data-card]'), card = link && document.getElementById(link.dataset.card);
      if (!card) return;
      event.preventDefault();
      toolcards.select?.(card);
      card.focus({preventScroll: true});
      card.scrollIntoView({block: 'nearest'});
    });
    const here = {childList: true, subtree: true, attributes: true, attributeFilter: ['value', 'aria-disabled']};
    const watch = new MutationObserver(() => { watch.disconnect(); settle(); watch.observe(batch, here); });
    settle();
    watch.observe(batch, here);
    said.addEventListener('click', event => {
      if (!event.target.closest('[data-close]')) return;
      said.replaceChildren();
      (document.querySelector('article.card[data-waiting]') || document.getElementById('main')).focus({preventScroll: true});
    });
    new MutationObserver(() => {
      const results = document.getElementById('results');
      if (!results) return;
      toolcards.say(results.dataset.line);
      results.focus();
    }).observe(said, {childList: true});
  });
})();
