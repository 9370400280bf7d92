// How pushed cards come into the page: in place where they are, else inserted in the board's order.
// The only module that is given markup; only htmx parses it, and only our server wrote it.
import {armCard} from '../inbox/approve_guard.js';
import {findBoard, flash, insertCard, removeCard} from './card_lists.js';
import {isOutdated} from './card_order.js';
import {shortenPushed} from '../runs/card_lines.js';
import {handleStrangeAnswer} from '../page/failed_requests.js';
import {growInput} from './growing_inputs.js';
import {forgetHeldCard, holdCard} from './held_cards.js';
import {keepTyped, readTyped} from '../inbox/kept_text.js';
import {renewRows} from '../runs/runs_table.js';
import {renewNumbers} from '../runs/statistics_table.js';
import {fillSlot, forgetSpare, hasSlots, renewSpare} from '../inbox/waiting_slots.js';

/** @type {any} what htmx gives its extensions */
let htmxApi;
/** @type {any} the page's only policy of trusted types, where the browser has them */
let trustedPolicy;
const SERVICE_WORKER = '/service-worker.js';
/** @type {WeakSet<Element>} folds that the reader opened or closed */
const keptFolds = new WeakSet();

/**
 * Change the card on the page into its next version; what the reader opened stays open.
 * @param {HTMLElement} present
 * @param {HTMLElement} next
 */
function morphCard(present, next) {
  const fragment = document.createDocumentFragment();
  fragment.append(next);
  const typed = readTyped(present);
  htmxApi.morph(present, fragment, false);
  const card = document.getElementById(present.id);
  if (!card) return null;
  keepTyped(card, typed);
  armCard(card);
  flash(card);
  return card;
}

/**
 * @param {HTMLElement} card
 * @param {string} style - "place", or "renew", which puts no new cards into the page
 * @param {HTMLElement | null} list
 */
function putCard(card, style, list) {
  const present = document.getElementById(card.id);
  if (card.hasAttribute('data-removed')) {
    removeCard(present);
    forgetHeldCard(card.id);
    forgetSpare(card.id);
    return null;
  }
  shortenPushed(card, present);
  if (present) {
    const hasNotice = Boolean(card.querySelector('[data-told]'));
    return isOutdated(present.dataset, card.dataset, hasNotice) ? null : morphCard(present, card);
  }
  if (style === 'renew') {
    forgetHeldCard(card.id);  // the list no longer shows it
    renewSpare(card);
  }
  if (style === 'renew' || !list || 'frozen' in list.dataset) return null;
  if (hasSlots(list)) return fillSlot(list, card);
  if (holdCard(list, card)) return null;
  return insertCard(list, card);
}

/** Let htmx put cards into the page. Must run before htmx reads the page. */
export function registerExtension() {
  htmx.registerExtension('toolcards', {
    /** @param {any} api */
    init(api) {
      htmxApi = api;
      const {trustedTypes} = /** @type {any} */ (window);
      if (!trustedTypes) return;
      const rules = {
        createHTML: (/** @type {string} */ text) => text, createScript: () => '',
        createScriptURL: (/** @type {string} */ url) => (url === SERVICE_WORKER ? url : ''),
      };
      trustedPolicy = trustedTypes.createPolicy('htmx', rules);
      api.initSecurity(trustedPolicy);
    },
    /** @type {(style: string, target: Element, fragment: DocumentFragment) => false | Element[]} */
    handle_swap(style, target, fragment) {
      if (style === 'rows') {
        renewRows(/** @type {HTMLElement} */ (target), fragment, (row, next) => htmxApi.morph(row, next, false));
        return [];
      }
      if (style === 'numbers') {
        renewNumbers(fragment);
        return [];
      }
      if (style === 'grow') {
        const piece = /** @type {HTMLElement | null} */ (fragment.querySelector('article[id]'));
        return [piece && growInput(piece)].filter(Boolean);
      }
      if (style !== 'place' && style !== 'renew') return false;
      /** @type {NodeListOf<HTMLElement>} */
      const elements = fragment.querySelectorAll('article[id], section.wrote[id]');
      const cards = [...elements];
      if (!cards.length) handleStrangeAnswer(Boolean(fragment.querySelector('input[name=password]')));
      return cards.map(card => putCard(card, style, findBoard())).filter(Boolean);
    },
    // What the reader opened or closed stays so; what was not touched follows the server.
    htmx_before_morph_attr: (/** @type {Element} */ element, /** @type {{attrName: string}} */ change) =>
      !(change.attrName === 'open' && keptFolds.has(element)),
  });
}

/** Let the browser install the dashboard as an app; plain http and private windows may refuse. */
export function registerServiceWorker() {
  const url = trustedPolicy ? trustedPolicy.createScriptURL(SERVICE_WORKER) : SERVICE_WORKER;
  const register = () => { navigator.serviceWorker?.register(url).catch(() => {}); };
  if (document.readyState === 'complete') register();
  else addEventListener('load', register);
}

/**
 * Keep a fold as the reader has it, whatever the server sends.
 * @param {Element} details
 */
export const keepFold = details => { keptFolds.add(details); };

/** Remember which folds the reader opens and closes. */
export function startPlace() {
  document.addEventListener('click', event => {
    const details = /** @type {Element} */ (event.target).closest('summary')?.parentElement;
    if (details) keepFold(details);
  });
}
