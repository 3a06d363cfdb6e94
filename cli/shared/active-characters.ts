/**
 * Beyond the control characters of ASCII, what acts on a terminal or a page, is invisible or turns text around: C1 controls, marks
 * and isolates of direction, separators of lines, and spaces without a width. For a class of a regular expression.
 */
export const activeCharacters = '\\u007f-\\u009f\\u061c\\u200b-\\u200f\\u2028-\\u202e\\u2060-\\u206f\\ufeff';
