/**
 * Limits on what is sent to Toolcards: large values are cut, with a mark, so that one result never ends a copy.
 */

const MAX_FRAME_CHARACTERS = 512 << 10; // of one frame; the server refuses more than 1 MiB
const MAX_FIELD_CHARACTERS = 128 << 10; // of a field in a frame that is too long
const MAX_LINE_CHARACTERS = 64 << 20; // of a line that is still incomplete; a longer one is left out

/**
 * Return the value, or its beginning as text with a mark if its JSON is longer than `limit` characters. What JSON does
 * not have is text: integers of any size, and values that contain themselves.
 *
 * @param {unknown} value
 * @param {number} [limit]
 * @returns {unknown}
 */
export function cutValue(value, limit = MAX_FRAME_CHARACTERS) {
  const json = makeJsonable(value);
  const text = typeof json === 'string' ? json : (JSON.stringify(json) ?? '');
  return text.length > limit ? cutText(text, Math.min(limit, MAX_FIELD_CHARACTERS)) : json;
}

/** Return the value, or another one if JSON has none for it. @param {unknown} value */
function makeJsonable(value) {
  try {
    JSON.stringify(value);
    return value;
  } catch {}
  try {
    return JSON.parse(JSON.stringify(value, (_, item) => (typeof item === 'bigint' ? String(item) : item)));
  } catch (error) {
    return `[${error instanceof Error ? error.message : error}]`;
  }
}

/** @param {string} text @param {number} limit */
function cutText(text, limit) {
  const isSplitPair = /[\ud800-\udbff]/.test(text[limit - 1]);
  return `${text.slice(0, isSplitPair ? limit - 1 : limit)}… [cut by Toolcards: ${text.length} characters]`;
}

/**
 * Return the frame with its long fields cut.
 *
 * @param {Record<string, any>} frame
 * @param {number} [limit]  characters of each field
 * @returns {Record<string, any>}
 */
export function cutFrame(frame, limit = MAX_FIELD_CHARACTERS) {
  const fields = Object.entries(frame).map(([name, value]) => {
    if (Array.isArray(value) && name === 'messages') return [name, value.map((message) => cutFrame(message ?? {}, limit >> 4))];
    const isNested = ['error', 'chunk', 'metadata', 'tanstack', 'value'].includes(name) && value && typeof value === 'object';
    return [name, isNested ? cutFrame(value, limit) : cutValue(value, limit)];
  });
  return Object.fromEntries(fields);
}

/** Splits a copy into complete lines, and cuts the frames of those that are too long. */
export class LineCutter {
  constructor() {
    this.rest = ''; // the incomplete line at the end
    this.isSkipping = false;
  }

  /** Return the complete lines of what was added, ready to send. @param {string} text @returns {string} */
  add(text) {
    const end = text.lastIndexOf('\n') + 1;
    if (!end) {
      this.keep(text);
      return '';
    }
    const lines = this.rest + text.slice(0, end);
    this.rest = '';
    const complete = this.isSkipping ? lines.slice(lines.indexOf('\n') + 1) : lines;
    this.isSkipping = false;
    this.keep(text.slice(end));
    return complete.length > MAX_FRAME_CHARACTERS ? complete.replace(/[^\n]+/g, cutLine) : complete;
  }

  /** Return the line that has no end. */
  end() {
    const line = this.isSkipping ? '' : this.rest;
    this.rest = '';
    return cutLine(line);
  }

  /** @param {string} text */
  keep(text) {
    if (!this.isSkipping) this.rest += text;
    if (this.rest.length > MAX_LINE_CHARACTERS) [this.rest, this.isSkipping] = ['', true];
  }
}

/** Return a line with its frame cut; "" if it is too long and not a frame. @param {string} line */
function cutLine(line) {
  if (line.length <= MAX_FRAME_CHARACTERS) return line;
  const [, prefix, json] = /** @type {RegExpExecArray} */ (/^(data: ?)?([^]*)$/.exec(line));
  let frame;
  try {
    frame = JSON.parse(json);
  } catch {
    return '';
  }
  for (let limit = MAX_FIELD_CHARACTERS; limit >= 256; limit >>= 2) {
    const text = `${prefix ?? ''}${JSON.stringify(cutFrame(frame, limit))}`;
    if (text.length <= MAX_FRAME_CHARACTERS) return text;
  }
  return '';
}
