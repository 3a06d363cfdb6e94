/** What somebody writes, and the whole answer. */
export interface Mistake {
  name: string;
  /** One file, or the files of a folder. */
  text: string | Readonly<Record<string, string>>;
  answer: string;
}
