import { styleText } from 'node:util';

/** Colours a text for a stream; plain where that is no terminal, or where NO_COLOR says so. */
export type Paint = (style: 'red' | 'yellow' | 'green' | 'cyan' | 'bold' | 'dim', text: string) => string;

export function paintFor(stream: NodeJS.WriteStream): Paint {
  return (style, text) => styleText(style, text, { stream, validateStream: true });
}
