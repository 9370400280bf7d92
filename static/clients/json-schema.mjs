/**
 * Checks of a value against a JSON Schema, for arguments that a person edited: the part of the schema language that
 * describes arguments of tools. Unknown keywords, and references to elsewhere, are not checked.
 */

const MAX_DEPTH = 32;
/** @type {Record<string, (value: any) => boolean>} */
const TYPES = {
  string: (value) => typeof value === 'string',
  number: (value) => typeof value === 'number',
  integer: (value) => Number.isInteger(value),
  boolean: (value) => typeof value === 'boolean',
  null: (value) => value === null,
  array: Array.isArray,
  object: (value) => typeof value === 'object' && value !== null && !Array.isArray(value),
};

/**
 * Return where the value does not fit the schema, such as `/cents: must be a number`; "" if it fits.
 *
 * @param {unknown} value
 * @param {any} schema
 * @returns {string}
 */
export function findMismatch(value, schema) {
  return check(value, schema, '', schema, 0);
}

/** @param {any} value @param {any} schema @param {string} path @param {any} root @param {number} depth @returns {string} */
function check(value, schema, path, root, depth) {
  if (schema === false) return `${path || '/'}: is not allowed`;
  if (typeof schema !== 'object' || schema === null || depth > MAX_DEPTH) return '';
  const inside = (/** @type {any} */ item, /** @type {any} */ part, /** @type {string | number} */ name) =>
    check(item, part, `${path}/${name}`, root, depth + 1);
  const same = (/** @type {any} */ part) => check(value, part, path, root, depth + 1);
  if (typeof schema.$ref === 'string') {
    const problem = same(resolve(schema.$ref, root));
    if (problem) return problem;
  }
  const fail = (/** @type {string} */ text) => `${path || '/'}: ${text}`;
  const types = [schema.type ?? []].flat();
  if (types.length && !types.some((type) => TYPES[type]?.(value) ?? true)) return fail(`must be ${types.join(' or ')}`);
  if (schema.enum && !schema.enum.some((/** @type {any} */ item) => isEqual(item, value))) return fail('is not one of the allowed values');
  if ('const' in schema && !isEqual(schema.const, value)) return fail('is not the allowed value');
  const problem = checkNumber(value, schema) || checkText(value, schema);
  if (problem) return fail(problem);
  const nested = TYPES.object(value) ? checkObject(value, schema, fail, inside) : Array.isArray(value) ? checkArray(value, schema, fail, inside) : '';
  if (nested) return nested;
  for (const part of schema.allOf ?? []) {
    const mismatch = same(part);
    if (mismatch) return mismatch;
  }
  const choices = [schema.anyOf, schema.oneOf].filter(Boolean);
  return choices.some((parts) => parts.every(same)) ? fail('matches none of the allowed schemas') : '';
}

/** @param {any} value @param {any} schema */
function checkNumber(value, schema) {
  if (typeof value !== 'number') return '';
  if (value < schema.minimum || value <= schema.exclusiveMinimum) return 'is too small';
  return value > schema.maximum || value >= schema.exclusiveMaximum ? 'is too large' : '';
}

/** @param {any} value @param {any} schema */
function checkText(value, schema) {
  if (typeof value !== 'string') return '';
  const { length } = [...value];
  if (length < schema.minLength) return 'is too short';
  return length > schema.maxLength ? 'is too long' : '';
}

/** @param {any} value @param {any} schema @param {(text: string) => string} fail @param {any} inside */
function checkObject(value, schema, fail, inside) {
  const properties = schema.properties ?? {};
  for (const name of schema.required ?? []) if (!Object.hasOwn(value, name)) return fail(`${name} is missing`);
  for (const [name, item] of Object.entries(value)) {
    const isKnown = Object.hasOwn(properties, name);
    if (!isKnown && schema.patternProperties) continue;
    const part = isKnown ? properties[name] : schema.additionalProperties;
    const problem = part === undefined ? '' : inside(item, part, name);
    if (problem) return problem;
  }
  return '';
}

/** @param {any[]} value @param {any} schema @param {(text: string) => string} fail @param {any} inside */
function checkArray(value, schema, fail, inside) {
  if (value.length < schema.minItems) return fail('has too few items');
  if (value.length > schema.maxItems) return fail('has too many items');
  for (const [index, item] of value.entries()) {
    const part = schema.prefixItems?.[index] ?? (Array.isArray(schema.items) ? schema.items[index] : schema.items);
    const problem = part === undefined ? '' : inside(item, part, index);
    if (problem) return problem;
  }
  return '';
}

/** Return what a reference inside the schema names. @param {string} reference @param {any} root */
function resolve(reference, root) {
  if (!reference.startsWith('#')) return true;
  const names = reference.slice(1).split('/').filter(Boolean);
  return names.reduce((part, name) => part?.[decodeURIComponent(name).replace(/~1/g, '/').replace(/~0/g, '~')], root) ?? true;
}

/** @param {unknown} left @param {unknown} right @returns {boolean} */
function isEqual(left, right) {
  return JSON.stringify(left) === JSON.stringify(right);
}
