/**
 * Characters beyond the ASCII control characters that act on a terminal or page, are invisible or change the direction of text: C1
 * controls, direction marks and isolates, line separators, and zero-width spaces. Written for a class of a regular expression.
 */
export const activeCharacters = '\\u007f-\\u009f\\u061c\\u200b-\\u200f\\u2028-\\u202e\\u2060-\\u206f\\ufeff';
