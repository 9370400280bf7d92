/** The former name of `stream-mirror.mjs`. */
export * from './stream-mirror.mjs';
