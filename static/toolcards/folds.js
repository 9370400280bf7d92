// On a long run's page, neighbours that went well fold into one line; what failed, was denied or waits always stands out.
(() => {
  const LEAST = 4, LONG = 8, TAIL = 3;  // cards to a fold; on a page that is long; the newest ones, which are being read
  const CALM = 10000;  // milliseconds since a card last changed: what has just ended is still being looked at
  const byHand = new Set();  // cards of folds that the reader has opened
  const changedAt = new Map();
  let list, scheduled = 0, settled = false;

  const quiet = card => card.dataset.state === 'output-available' && !card.matches('[data-soft], [data-moving]')
    && !card.querySelector('.odd, .diff, [data-told]') && !card.contains(document.activeElement)
    && performance.now() - (changedAt.get(card.id) ?? -CALM) >= CALM;
  const agent = card => card.querySelector('.meta .path')?.textContent || '';
  const seconds = milliseconds => {
    const said = milliseconds / 1000;
    if (said < 0.1) return `${Math.round(milliseconds)} ms`;
    return said < 60 ? `${said < 10 ? said.toFixed(1) : Math.round(said)} s` : `${Math.floor(said / 60)} min ${Math.round(said % 60)} s`;
  };

  const groups = cards => {
    const found = [];
    let run = [];
    const close = () => { if (run.length >= LEAST) found.push(run); run = []; };
    cards.forEach((card, at) => {
      if (at >= cards.length - TAIL || !quiet(card)) { close(); return; }
      if (run.length && agent(run[0]) !== agent(card)) close();
      run.push(card);
    });
    close();
    return found;
  };

  const words = cards => {
    const tools = new Map();
    for (const card of cards) {
      const tool = card.querySelector('.tool').textContent;
      tools.set(tool, (tools.get(tool) || 0) + 1);
    }
    const said = [...tools].sort((a, b) => b[1] - a[1]).map(([tool, count]) => `${count} ${tool}`);
    const took = cards.reduce((sum, card) => sum + (+card.dataset.took || 0), 0);
    const named = said.slice(0, 4).join(', ') + (said.length > 4 ? ' and others' : '');
    return [`${cards.length} calls`, named, seconds(took)];
  };

  const head = cards => {
    const id = `fold-${cards[0].id}`;
    let line = document.getElementById(id);
    if (!line) {
      line = document.createElement('li');
      line.className = 'folded'; line.id = id;
      const button = document.createElement('button');
      button.type = 'button';
      for (const part of ['calls', 'named', 'took']) button.append(Object.assign(document.createElement('span'), {className: part}));
      line.append(button);
    }
    const open = cards.some(card => byHand.has(card.id));
    const button = line.firstElementChild;
    button.setAttribute('aria-expanded', open);
    words(cards).forEach((text, at) => { const part = button.children[at]; if (part.textContent !== text) part.textContent = text; });
    button.onclick = () => {
      for (const card of cards) if (open) byHand.delete(card.id); else byHand.add(card.id);
      fold(true);
    };
    return [line, open];
  };

  const fold = asked => {
    scheduled = 0;
    observer.disconnect();
    const cards = [...list.querySelectorAll(':scope > li > article.card:not([data-removed])')];
    const found = cards.length >= LONG ? groups(cards) : [];
    const hidden = new Set(), heads = new Set();
    const still = settled && asked !== true && list.matches(':hover');  // nothing moves under the pointer
    for (const group of found) {
      if (still && group.some(card => !card.parentElement.hidden) && !group.some(card => byHand.has(card.id))) continue;
      const [line, open] = head(group);
      heads.add(line);
      const first = group[0].parentElement;
      if (line.nextElementSibling !== first) list.insertBefore(line, first);
      if (!open) for (const card of group) hidden.add(card.parentElement);
    }
    for (const line of list.querySelectorAll(':scope > .folded')) if (!heads.has(line)) line.remove();
    for (const card of cards) if (card.parentElement.hidden !== hidden.has(card.parentElement)) card.parentElement.hidden = !card.parentElement.hidden;
    observer.observe(list, {childList: true, subtree: true, attributes: true, attributeFilter: ['data-state', 'data-rev']});
  };

  const soon = () => { scheduled ||= setTimeout(() => fold(), 200); };
  const observer = new MutationObserver(changes => {
    const now = performance.now();
    for (const change of changes) {
      const card = change.target.closest?.('article.card');
      if (change.type === 'attributes' && card) changedAt.set(card.id, now);
    }
    soon();
  });

  // A link to a card inside a fold opens it.
  const reveal = () => {
    const card = document.getElementById(location.hash.slice(1));
    if (card?.matches('article.card') && card.parentElement.hidden) { byHand.add(card.id); fold(); card.scrollIntoView(); }
  };

  document.addEventListener('DOMContentLoaded', () => {
    list = document.getElementById('board');
    if (list?.dataset.board !== 'run') return;
    fold(); reveal(); settled = true;
    addEventListener('hashchange', reveal);
    setInterval(soon, CALM / 2);
  });
})();
