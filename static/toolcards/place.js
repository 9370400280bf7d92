// How pushed cards come into the page: in place where they are, else inserted in the board's order.
// The only code that is given markup; only htmx parses it, and only our server wrote it.
(() => {
  let api;
  const MOST = 200;
  const board = () => document.getElementById('board');

  // A number that says where a card belongs: "ordinal", "requested", or "-pk" for newest first.
  const rank = (card, by) => by.startsWith('-') ? -card.dataset[by.slice(1)] : +card.dataset[by];

  // What has a place in the order: a card, or the heading of a group.
  const ranked = place => place.matches('.group, article.card:not([data-removed])') ? place : place.querySelector('article.card:not([data-removed])');

  const outdated = (now, next) => {
    const [have, got] = [+now.dataset.rev, +next.dataset.rev];
    if (got !== have) return got < have;
    if (+next.dataset.seq > +now.dataset.seq) return false;  // the agent left or came back, which no vote depends on
    return !next.querySelector('[data-told]');  // the same revision again says nothing new, unless it tells the reader
  };

  const morph = (now, next) => {
    for (const fold of now.querySelectorAll('details')) fold.byHand ??= fold.open !== !!fold.madeOpen;
    const one = document.createDocumentFragment();
    one.append(next);
    api.morph(now, one, false);
    const card = document.getElementById(now.id);
    if (card) toolcards.changed(card);
    return card;
  };

  const insert = (list, card) => {
    const by = list.dataset.order || 'ordinal';
    const after = [...list.children].find(place => {
      const other = ranked(place);
      return other && rank(other, by) > rank(card, by);
    });
    const wrap = ['OL', 'UL'].includes(list.tagName);
    const home = wrap ? document.createElement('li') : card;
    if (wrap) home.append(card);
    list.insertBefore(home, after || null);
    trim(list);
    toolcards.appeared(card);
    return card;
  };

  const trim = list => {
    const most = +list.dataset.most || MOST, newestLast = !(list.dataset.order || '').startsWith('-');
    const cards = [...list.querySelectorAll('article.card')];
    const extra = newestLast ? cards.slice(0, -most) : cards.slice(most);
    for (const card of extra) {
      if (card.contains(document.activeElement) || card.hasAttribute('data-waiting')) continue;
      (card.closest('#board > li') || card).remove();
    }
    if (extra.length && newestLast && list.dataset.board === 'run') toolcards.olderThan(list);
  };

  const remove = card => {
    if (card) (card.closest('#board > li') || card).remove();
  };

  const put = (card, style, list) => {
    const now = document.getElementById(card.id);
    if (card.hasAttribute('data-removed')) return remove(now);
    if (now) return outdated(now, card) ? null : morph(now, card);
    if (style === 'renew' || !list || 'frozen' in list.dataset) return null;
    if (toolcards.holds(list, card)) return null;
    return insert(list, card);
  };

  // A fold outside of cards (a picture's table) stays as its reader has it, too.
  document.addEventListener('click', event => {
    const fold = event.target.closest('summary')?.parentElement;
    if (fold && !fold.closest('article.card')) fold.byHand = true;
  });

  window.toolcards = {insertHeld: (list, card) => insert(list, card)};

  htmx.registerExtension('toolcards', {
    init(given) {
      api = given;
      if (window.trustedTypes) {
        api.initSecurity(trustedTypes.createPolicy('htmx', {createHTML: text => text, createScript: () => ''}));
      }
    },
    handle_swap(style, target, fragment) {
      if (style !== 'place' && style !== 'renew') return false;
      const cards = [...fragment.querySelectorAll('article[id]')];
      if (!cards.length) toolcards.strange(fragment);
      return cards.map(card => put(card, style, board())).filter(Boolean);
    },
    // What the reader opened or closed stays so; what nobody touched follows the server.
    htmx_before_morph_attr: (element, change) => !(change.attrName === 'open' && element.byHand),
  });
})();
