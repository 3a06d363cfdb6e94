import { UsageError } from '../shared/flags.ts';

/** How many requests are too many: a number, or a percentage of all. */
export interface RequestBound {
  /** As it was given. */
  text: string;
  isExceeded(requests: number, total: number): boolean;
}

/** `0`, `120` or `0.5%`. Undefined without the flag. */
export function readRequestBound(flag: string, text: string | undefined): RequestBound | undefined {
  if (text === undefined) return undefined;
  const match = /^(\d+)$|^(\d+(?:\.\d+)?)%$/.exec(text);
  if (match === null)
    throw new UsageError(`${flag} is a number of requests or a percentage such as 0.5%, not "${text}"`);
  const [, number, percent] = match;
  if (number !== undefined) return { text, isExceeded: (requests) => requests > Number(number) };
  return { text, isExceeded: (requests, total) => requests * 100 > total * Number(percent) };
}
