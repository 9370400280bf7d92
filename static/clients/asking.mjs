/** The former name of `gate-client.mjs`. */
export * from './gate-client.mjs';
export { request } from './gate-http.mjs';
