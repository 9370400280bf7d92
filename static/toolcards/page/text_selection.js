// Keeps text selected while it grows: rewriting a text removes the selection in it.

/** @typedef {{node: Node, offset: number, before: string}} End one end of the selection, and the text before it */

/** @type {[End, End] | null} */
let kept = null;

/**
 * @param {Node | null} node
 * @param {number} offset
 * @returns {End | null}
 */
const readEnd = (node, offset) => (node instanceof Text ? {node, offset, before: node.data.slice(0, offset)} : null);

/** @param {End} end */
const isThere = ({node, before}) => node.isConnected && /** @type {Text} */ (node).data.startsWith(before);

function keepSelection() {
  const selection = getSelection();
  const anchor = selection && !selection.isCollapsed && readEnd(selection.anchorNode, selection.anchorOffset);
  const focus = anchor && readEnd(selection.focusNode, selection.focusOffset);
  kept = anchor && focus ? [anchor, focus] : null;
}

function restoreSelection() {
  if (!kept) return;
  const [anchor, focus] = kept;
  kept = null;
  const selection = getSelection();
  const isSame = selection.anchorNode === anchor.node && selection.anchorOffset === anchor.offset
    && selection.focusNode === focus.node && selection.focusOffset === focus.offset;
  if (isSame || !isThere(anchor) || !isThere(focus)) return;
  selection.setBaseAndExtent(anchor.node, anchor.offset, focus.node, focus.offset);
}

/** Keep the selection over every change of the page. */
export function startSelection() {
  document.addEventListener('htmx:before:swap', keepSelection);
  document.addEventListener('htmx:after:swap', restoreSelection);
}
