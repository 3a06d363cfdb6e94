/** One document of a file, as text, and the number of its first line, from 1. */
export interface DocumentText {
  text: string;
  firstLine: number;
}

/** Splits a file at lines of `---`, as kubectl does, so that a document that cannot be read spoils no other. */
export function documentTexts(text: string): DocumentText[] {
  const documents: DocumentText[] = [];
  const lines = text.split(/(?<=\r\n|\n|\r(?!\n))/);
  let document: DocumentText = { text: '', firstLine: 1 };
  for (const [index, line] of lines.entries()) {
    if (/^---(?:\s|$)/.test(line)) {
      documents.push(document);
      document = { text: '', firstLine: index + 1 };
    }
    document.text += line;
  }
  documents.push(document);
  return documents;
}
