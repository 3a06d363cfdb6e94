/** What no limiter should ever print, whatever its store does. */
const internal = [
  / level=fatal /,
  /Fault while answering a call/,
  /uncaught|unhandled/i,
  /\b(?:Type|Range|Reference|Syntax)Error\b/,
  /Warning: Possible EventEmitter memory leak/,
  /^\s+at .+:\d+:\d+\)?$/,
];

/** The lines of a limiter's output that report a fault of its own. Pure. */
export function internalFaults(output: string): string[] {
  return output.split('\n').filter((line) => internal.some((pattern) => pattern.test(line)));
}
