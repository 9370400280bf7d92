// Single-key shortcuts: off in fields, off with modifiers, and off altogether for who wants that.
(() => {
  const PLACES = {n: '/', a: '/approvals/', r: '/runs/', c: '/calls/', p: '/policy/', s: '/sources/'};
  const cards = which => [...document.querySelectorAll('article.card' + (which || ''))].filter(card => !card.closest('li[hidden]'));
  const current = () => document.activeElement?.closest?.('article.card');
  let going = 0;

  const go = card => { toolcards.select?.(card); if (card) { card.focus({preventScroll: true}); card.scrollIntoView({block: 'nearest'}); } };
  const step = by => {
    const all = cards(), at = all.indexOf(current());
    go(all[Math.min(all.length - 1, Math.max(0, at + by))]);
  };
  const nextWaiting = () => {
    const all = cards('[data-waiting]'), at = all.indexOf(current());
    if (all.length) go(all[(at + 1) % all.length]); else location.assign('/approvals/');
  };
  const only = () => current() || (cards('[data-waiting]').length === 1 ? cards('[data-waiting]')[0] : null);
  const group = () => document.activeElement?.closest?.('#batch form');
  const approve = () => {
    const at = group() || only(), button = at?.querySelector('button[value=approve]');
    if (button) button.click(); else if (at === group()) toolcards.say('These are of high risk: approve each on its own card.');
  };
  const undo = () => {
    const forms = [...document.querySelectorAll('form.undo:not([hidden])')];
    (current()?.querySelector('form.undo:not([hidden])') || forms.at(-1))?.requestSubmit();
  };
  const deny = () => {
    const at = group() || only(), reason = at?.querySelector('.reason input');
    if (reason) reason.focus(); else at?.querySelector('button[name=decision][value=deny]')?.click();
  };

  const edit = () => {
    const field = only()?.querySelector('textarea[name=edited_args]');
    if (!field) { toolcards.say('The rule that asks lets nobody edit this call.'); return; }
    field.closest('details').open = true;
    field.focus();
  };
  const rule = () => {
    const link = only()?.querySelector('.permalink');
    if (!link) return;
    if (document.body.dataset.can.includes('policy')) location.assign(`${link.getAttribute('href')}rule/`);
    else toolcards.say('Rules are made by somebody with the role admin.');
  };
  const picking = name => () => {
    const card = only();
    if (!card) return;
    if (toolcards[name]) toolcards[name](card); else toolcards.say('Calls are selected in the inbox, under Approvals.');
  };

  const KEYS = {
    j: () => step(1), k: () => step(-1), n: nextWaiting, a: approve, d: deny, z: undo,
    e: edit, r: rule, x: picking('pick'), s: picking('pickShape'),
    '.': () => toolcards.showHeld(), '?': () => toolcards.do.help(), t: () => toolcards.do.theme(),
    g: () => { going = Date.now(); },
    '/': () => { const field = document.querySelector('[data-filter]'); if (field) field.focus(); else location.assign('/calls/'); },
    enter: () => { if (document.activeElement?.matches('article.card')) current().querySelector('.permalink')?.click(); },
  };

  const inField = at => at.closest?.('input:not([name=pick]), textarea, select, [contenteditable], dialog[open]');

  document.addEventListener('keydown', event => {
    const field = inField(event.target);
    if (field && event.key === 'Enter' && (event.ctrlKey || event.metaKey) && field.closest('.reason')) {
      event.preventDefault();
      field.form.querySelector('button[value=deny]').click();
      return;
    }
    if (field && event.key === 'Enter' && field.closest('.reason')) { event.preventDefault(); return; }  // a bare Enter decides nothing
    if (field && event.key === 'Escape') { field.closest('article.card, #batch form')?.focus(); return; }
    if (field || event.ctrlKey || event.metaKey || event.altKey || event.isComposing || toolcards.kept('keys') === 'off') return;
    if (document.activeElement?.matches('[data-minimap]') && ['ArrowLeft', 'ArrowRight'].includes(event.key)) {
      event.preventDefault();
      document.querySelector(`.pager a[rel=${event.key === 'ArrowLeft' ? 'prev' : 'next'}]`)?.click();
      return;
    }
    const key = event.key.toLowerCase();
    if (event.repeat && 'adz'.includes(key)) return;  // a key held down answers once
    if (Date.now() - going < 1500 && PLACES[key]) { going = 0; location.assign(PLACES[key]); return; }
    if (key === 'enter' && !document.activeElement?.matches('article.card')) return;
    if (KEYS[key]) { event.preventDefault(); KEYS[key](); }
  });
})();
