// The inbox on a wide screen: what waits as a list on the left, the one card that is read on the right.
// The list mirrors the board; without it (narrow screens, no scripts) all cards stand below each other.
(() => {
  const wide = matchMedia('(width >= 1500px)');
  let list, queue, selected = '', scheduled = 0;

  const cards = () => [...list.querySelectorAll(':scope > li > article.card:not([data-removed])')];
  const text = (card, part) => card.querySelector(part)?.textContent.trim() || '';
  const make = (tag, className, content = '') => Object.assign(document.createElement(tag), {className, textContent: content});

  const line = card => {
    const item = document.createElement('li'), button = make('button', 'queued');
    button.type = 'button';
    button.dataset.card = card.id;
    const badge = card.querySelector('.badge.st').cloneNode(true);
    const about = make('span', 'about');
    about.append(make('code', 'tool', text(card, '.tool')), make('span', 'sum', text(card, '.sum')));
    const foot = make('span', 'foot', [text(card, '.meta .path'), text(card, '.meta .runlink')].filter(Boolean).join(' · '));
    button.append(badge, about, foot);
    if (card.id === selected) button.setAttribute('aria-current', 'true');
    button.addEventListener('click', () => { select(card); card.focus({preventScroll: true}); });
    item.append(button);
    return item;
  };

  const draw = () => {
    scheduled = 0;
    const all = cards(), split = wide.matches && all.length > 1;
    list.classList.toggle('split', split);
    queue.hidden = !split;
    if (!split) return;
    if (!all.some(card => card.id === selected)) selected = (all.find(card => card.hasAttribute('data-waiting')) || all[0]).id;
    for (const card of all) card.parentElement.classList.toggle('selected', card.id === selected);
    const focused = document.activeElement?.dataset?.card, places = [];
    for (const place of list.children) {
      const card = place.querySelector(':scope > article.card:not([data-removed])');
      if (card) places.push(line(card));
      else if (place.matches('.group') && place.nextElementSibling?.querySelector('article.card')) places.push(make('li', 'group', place.textContent));
    }
    queue.firstElementChild.replaceChildren(...places);
    if (focused) queue.querySelector(`[data-card="${CSS.escape(focused)}"]`)?.focus();
  };

  const select = card => { selected = card.id; draw(); };
  const soon = () => { scheduled ||= setTimeout(draw, 50); };

  document.addEventListener('DOMContentLoaded', () => {
    list = document.getElementById('board');
    queue = document.getElementById('queue');
    if (!list || !queue) return;
    toolcards.select = card => { if (card?.parentElement?.parentElement === list && card.id !== selected) select(card); };
    new MutationObserver(soon).observe(list, {childList: true, subtree: true, attributes: true, attributeFilter: ['data-state', 'data-rev']});
    wide.addEventListener('change', draw);
    draw();
  });
})();
