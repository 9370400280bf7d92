/** The former name of `gate-answers.mjs`. */
export * from './gate-answers.mjs';
